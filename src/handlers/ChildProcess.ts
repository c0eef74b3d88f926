import { type ChildProcess as NodeChild, spawn as spawnNode } from "node:child_process"
import { randomBytes } from "node:crypto"
import type { Readable, Writable } from "node:stream"
import { Data, Deferred, type Duration, Effect, Exit, FiberId, type Scope } from "effect"
import type { ChildReaper } from "./ChildReaper.js"
import * as ProcessGroup from "./ProcessGroup.js"

// A child starts behind a gate: a shell that waits for one line and then becomes the command. Before we give that line, the
// keeper knows the child's group. So whenever this process is killed, either the gate reads the end of its line and ends, or
// the keeper knows whom to end. The gate also enters the working directory and looks where it came to be, so that a symbolic
// link exchanged at the last moment leads nowhere. It keeps its few words out of the command's environment.
const gate = `
IFS= read -r NIGHTSHIFT_GATE <&3 || exit 125
exec 3<&-
unset NIGHTSHIFT_GATE
cd -P -- "$2" || exit 126
case $PWD/ in "$1"/*) ;; *) echo "$0: $PWD is outside of $1" >&2; exit 126 ;; esac
shift 2
unset PWD OLDPWD
exec "$@"
`

/** How long to wait for the end of what was written, when all who could write are gone. */
const drainPatience: Duration.DurationInput = "1 second"

/** All that a child finds in its environment, besides what it is given. */
export const cleanPath = "/usr/local/bin:/usr/bin:/bin"

export interface Command {
  /** The executable and its arguments. No shell looks at them. */
  readonly argv: readonly [string, ...ReadonlyArray<string>]
  /** An absolute path. */
  readonly directory: string
  /** The directory must lie in here once every symbolic link is followed; any will do when empty. */
  readonly root: string
  /** All of it: nothing of our own environment is added. */
  readonly environment: Readonly<Record<string, string>>
}

/** The system would not start the process. */
export class SpawnFailed extends Data.TaggedError("SpawnFailed")<{
  readonly reason: string
  /** Whether trying again would be the same again. */
  readonly permanent: boolean
}> {
  override get message(): string {
    return this.reason
  }
}

/** How the process ended by itself or by a signal. */
export interface Ended {
  readonly code: number | undefined
  readonly signal: NodeJS.Signals | undefined
}

/** A process at the head of a group of its own. */
export interface ChildProcess {
  readonly pid: number
  readonly stdin: Writable
  readonly stdout: Readable
  readonly stderr: Readable
  readonly ended: Effect.Effect<Ended>
  /** It has ended, and all that was written has been read. Whoever holds its output open keeps this from ever being so. */
  readonly drained: Effect.Effect<void>
  /** Why the command never came to run, if what stands on stderr is the gate's word on that. */
  readonly refusalIn: (stderr: string) => string | undefined
  /** Ends the whole group, TERM and after the grace KILL; returns when nobody is left and what they wrote is read. */
  readonly end: Effect.Effect<void>
}

const permanentCodes = new Set(["E2BIG", "EACCES", "ENOENT", "ENOTDIR", "ERR_INVALID_ARG_VALUE"])

const spawnFailed = (error: unknown): SpawnFailed => {
  const code = error instanceof Error && "code" in error ? String(error.code) : ""
  const message = error instanceof Error ? error.message : String(error)
  const reason = code === "E2BIG" ? "its arguments and environment are longer than the system takes" : message
  return new SpawnFailed({ reason, permanent: permanentCodes.has(code) })
}

/** As a person would say it, and not as `gate-…: 9: exec: …`. */
const plainRefusal = (text: string, name: string): string =>
  (text.split("\n")[0] ?? "").slice(name.length + 2).replace(/^(?:line )?\d+: (?:exec: |cd: )?/, "")

const launch = (keeper: ChildReaper, { argv, directory, environment, root }: Command) =>
  Effect.async<ChildProcess, SpawnFailed>((resume) => {
    const name = `gate-${randomBytes(8).toString("hex")}`
    let child: NodeChild
    try {
      child = spawnNode("/bin/sh", ["-c", gate, name, root.replace(/\/+$/, ""), directory, ...argv], {
        cwd: "/",
        env: environment,
        detached: true,
        stdio: ["pipe", "pipe", "pipe", "pipe"]
      })
    } catch (error) {
      return resume(spawnFailed(error))
    }
    const { pid, stderr, stdin, stdout } = child
    child.on("error", (error) => resume(spawnFailed(error)))
    if (pid === undefined || stdin === null || stdout === null || stderr === null) return
    keeper.watch(pid)
    const word = child.stdio[3] as Writable
    for (const stream of [stdin, stdout, stderr, word]) stream.on("error", () => {})
    word.end("go\n")

    const exited = Deferred.unsafeMake<Ended>(FiberId.none)
    const drained = Deferred.unsafeMake<void>(FiberId.none)
    // A pid may be a stranger's soon after.
    let over = false
    child.on("exit", (code, signal) => {
      Deferred.unsafeDone(exited, Exit.succeed({ code: code ?? undefined, signal: signal ?? undefined }))
    })
    child.on("close", () => Deferred.unsafeDone(drained, Exit.void))

    resume(
      Effect.succeed({
        pid,
        stdin,
        stdout,
        stderr,
        ended: Deferred.await(exited),
        drained: Deferred.await(drained),
        refusalIn: (text) => (text.startsWith(`${name}: `) ? plainRefusal(text, name) : undefined),
        end: Effect.suspend(() => (over ? Effect.void : ProcessGroup.end(pid))).pipe(
          // Whoever left the group may hold our pipes open for ever.
          Effect.zipRight(ProcessGroup.within(Deferred.await(drained), drainPatience)),
          Effect.zipRight(
            Effect.sync(() => {
              for (const stream of [stdin, stdout, stderr]) stream.destroy()
              over = true
              keeper.forget(pid)
            })
          )
        )
      })
    )
  })

/** Starts a command at the head of a group of its own, all of which ends with the Scope, and with our process. */
export const spawn = (keeper: ChildReaper, command: Command): Effect.Effect<ChildProcess, SpawnFailed, Scope.Scope> =>
  Effect.acquireRelease(launch(keeper, command), ({ end }) => end)
