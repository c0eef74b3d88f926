import { spawn as spawnChild } from "node:child_process"
import { Deferred, type Duration, Effect, Exit, FiberId, Option, Schedule, type Scope } from "effect"
import { identity, type ServerAccount } from "./ServerAccount.js"

/** A child process that never outlives this process. */
export interface SupervisedProcess {
  /** Pid of the process itself, not of the shell that supervises it. */
  readonly pid: number

  /** Completes with the exit code; 128 and above means that a signal ended the process. */
  readonly exited: Effect.Effect<number>

  /** The last lines of output. */
  readonly lastLines: Effect.Effect<string>

  readonly signal: (signal: NodeJS.Signals) => Effect.Effect<void>
}

export interface SupervisedProcessOptions {
  readonly command: ReadonlyArray<string>
  readonly account: Option.Option<ServerAccount>
  readonly workingDirectory: string
  readonly environment: Readonly<Record<string, string>>

  /** One line on stdin for the process. Unlike arguments, it is not visible in the process list. */
  readonly input: string

  /** Signals to send when the Scope closes, each with the time to wait before the next one. */
  readonly stop: ReadonlyArray<readonly [NodeJS.Signals, Duration.DurationInput]>

  /** Directory that the shell removes if this process was killed and cannot do it. */
  readonly removeWhenOrphaned: Option.Option<string>

  readonly onOutput: (chunk: Buffer) => void
}

// The shell's stdin closes when this process ends in any way, including kill -9. The watcher then stops the child: a
// fast shutdown, after 0.7 s an immediate one, then KILL. The main shell reaps the child, so its pid cannot be reused
// while the watcher may still signal it. When the child has exited, the main shell sends TERM to the watcher, which
// ignores it once it has started to stop the child.
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
    // Detached, so that Ctrl-C in the terminal reaches only this process, which stops the server in the right order.
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
      resume(Effect.fail(new Error(`/bin/sh exited immediately (${signal ?? code})`)))
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
          // The last output may still be in the pipe after the exit. Wait for it only briefly, because orphaned
          // children may keep the pipe open.
          exited: Effect.zipLeft(Deferred.await(ended), Effect.timeoutOption(Deferred.await(drained), "300 millis")),
          lastLines: Effect.sync(() => tail.trim().split("\n").slice(-keptLines).join("\n")),
          signal: (name) => Effect.flatMap(Deferred.isDone(ended), (done) => (done ? Effect.void : signal(name))),
          close: Effect.sync(() => shell.stdin.destroy())
        })
      )
    })
  })

/** Starts a process. Closing the Scope stops it; if this process is killed, its watcher stops the child shortly afterwards. */
export const spawn = (options: SupervisedProcessOptions): Effect.Effect<SupervisedProcess, Error, Scope.Scope> =>
  Effect.acquireRelease(launch(options), ({ close, exited, signal }) =>
    Effect.gen(function* () {
      for (const [name, timeout] of options.stop) {
        // Repeated, because the shell starts its child with SIGINT ignored: a server that has just started misses the first.
        const sending = Effect.repeat(signal(name), Schedule.spaced("200 millis"))
        // Finalizers are uninterruptible, and an uninterruptible wait could not time out.
        const ended = Effect.interruptible(Effect.raceFirst(exited, sending))
        if (Option.isSome(yield* Effect.timeoutOption(ended, timeout))) break
      }
      yield* close
    })
  )
