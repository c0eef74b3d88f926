import { spawn as spawnChild } from "node:child_process"
import { Deferred, type Duration, Effect, Exit, FiberId, Option, Schedule, type Scope } from "effect"
import { identity, type ServerAccount } from "./ServerAccount.js"

/** A process that does not outlive ours. */
export interface SupervisedProcess {
  /** The process itself, not the shell that watches it. */
  readonly pid: number

  /** Completes with the exit code once it has ended; 128 and more is a signal. */
  readonly exited: Effect.Effect<number>

  /** The last lines it wrote. */
  readonly lastLines: Effect.Effect<string>

  readonly signal: (signal: NodeJS.Signals) => Effect.Effect<void>
}

export interface SupervisedProcessOptions {
  readonly command: ReadonlyArray<string>
  readonly account: Option.Option<ServerAccount>
  readonly workingDirectory: string
  readonly environment: Readonly<Record<string, string>>

  /** One line for the process to read: not seen in a list of processes. */
  readonly input: string

  /** What to send, and how long to wait before the next, when the Scope closes. */
  readonly stop: ReadonlyArray<readonly [NodeJS.Signals, Duration.DurationInput]>

  /** Removed after the process when ours was killed and cannot do it. */
  readonly removeWhenOrphaned: Option.Option<string>

  readonly onOutput: (chunk: Buffer) => void
}

// Our end of the shell's stdin closes when our process ends in whatever way, kill -9 too. That ends the child: a fast
// shutdown if it takes less than 0.7 s, else an immediate one. The main shell reaps the child, so that its pid cannot
// pass to a stranger while the watching one still means to signal it. TERM is what the main shell sends to the watching
// one when the child has ended; it is ignored from where the watching one has work left.
const script = `
remove=$1; shift
exec 3<&0
IFS= read -r input <&3 || exit 1
printf '%s\\n' "$input" | "$@" 3<&- >&2 &
child=$!
(
  read -r line <&3
  trap '' TERM
  for signal in INT QUIT KILL; do
    kill -$signal $child || break
    n=0
    while [ $n -lt 7 ] && kill -0 $child; do sleep 0.1; n=$((n+1)); done
  done
  [ -z "$remove" ] || rm -rf "$remove"
) >/dev/null 2>&1 &
watcher=$!
echo $child
wait $child
status=$?
kill $watcher 2>/dev/null
exit $status
`

const keptOutput = 16_000
const keptLines = 20

const launch = (options: SupervisedProcessOptions) =>
  Effect.async<SupervisedProcess & { readonly close: Effect.Effect<void> }, Error>((resume) => {
    const { account, command, environment, input, onOutput, removeWhenOrphaned, workingDirectory } = options
    const ended = Deferred.unsafeMake<number>(FiberId.none)
    const drained = Deferred.unsafeMake<void>(FiberId.none)
    let tail = ""
    // A session of its own: Ctrl-C in the terminal is for us, and we end the server when we are done with it.
    const shell = spawnChild(
      "/bin/sh",
      ["-c", script, "sh", Option.getOrElse(removeWhenOrphaned, () => ""), ...command],
      {
        ...identity(account),
        cwd: workingDirectory,
        env: { PATH: "/usr/bin:/bin", ...environment },
        detached: true,
        stdio: ["pipe", "pipe", "pipe"]
      }
    )
    shell.on("error", (error) => resume(Effect.fail(error)))
    shell.on("exit", (code, signal) => {
      Deferred.unsafeDone(ended, Exit.succeed(code ?? (signal === null ? 1 : 128)))
      resume(Effect.fail(new Error(`/bin/sh ended at once (${signal ?? code})`)))
    })
    shell.on("close", () => Deferred.unsafeDone(drained, Exit.void))
    shell.stdin.on("error", () => {})
    shell.stdin.write(`${input}\n`)
    shell.stderr.on("data", (chunk: Buffer) => {
      tail = `${tail}${chunk}`.slice(-keptOutput)
      onOutput(chunk)
    })
    shell.stdout.once("data", (line: Buffer) => {
      const pid = Number(`${line}`.trim())
      const signal = (signal: NodeJS.Signals) => Effect.ignore(Effect.try(() => process.kill(pid, signal)))
      resume(
        Effect.succeed({
          pid,
          // What the process said last is still in the pipe when it has ended; children it left may hold that open.
          exited: Effect.zipLeft(Deferred.await(ended), Effect.timeoutOption(Deferred.await(drained), "300 millis")),
          lastLines: Effect.sync(() => tail.trim().split("\n").slice(-keptLines).join("\n")),
          signal: (name) => Effect.flatMap(Deferred.isDone(ended), (done) => (done ? Effect.void : signal(name))),
          close: Effect.sync(() => shell.stdin.destroy())
        })
      )
    })
  })

/** Starts a process that ends with the Scope, and soon after our own process if that is killed. */
export const spawn = (options: SupervisedProcessOptions): Effect.Effect<SupervisedProcess, Error, Scope.Scope> =>
  Effect.acquireRelease(launch(options), ({ close, exited, signal }) =>
    Effect.gen(function* () {
      for (const [name, patience] of options.stop) {
        // Sent again: the shell starts its child with SIGINT ignored, so a server that has just begun misses the first.
        const sending = Effect.repeat(signal(name), Schedule.spaced("200 millis"))
        // A finalizer cannot be interrupted, and a wait that cannot be has no end.
        const ended = Effect.interruptible(Effect.raceFirst(exited, sending))
        if (Option.isSome(yield* Effect.timeoutOption(ended, patience))) break
      }
      yield* close
    })
  )
