import { type ChildProcess as NodeChild, spawn as spawnNode } from "node:child_process"
import { randomBytes } from "node:crypto"
import type { Readable, Writable } from "node:stream"
import { Data, Deferred, type Duration, Effect, Exit, FiberId, type Scope } from "effect"
import type { ChildReaper } from "./ChildReaper.js"
import * as ProcessGroup from "./ProcessGroup.js"

// Each child starts as a gate: a shell that blocks on one line from fd 3 and then execs the command. We send that line
// only after the reaper knows the child's process group. If this process is killed before that, the gate reads EOF and
// exits; if it is killed later, the reaper kills the group. The gate also changes to the working directory and checks
// the resolved path, so a symbolic link swapped after our own check cannot lead outside the root. Its variables are
// unset before the exec.
const gate = `
IFS= read -r NIGHTSHIFT_GATE <&3 || exit 125
exec 3<&-
unset NIGHTSHIFT_GATE
cd -P -- "$2" || exit 126
case $PWD/ in "$1"/*) ;; *) echo "$0: $PWD is outside $1" >&2; exit 126 ;; esac
shift 2
unset PWD OLDPWD
exec "$@"
`

/** How long to wait for the output streams to close after the process group has ended. */
const drainTimeout: Duration.DurationInput = "1 second"

/** The PATH of a child that is not given one. */
export const cleanPath = "/usr/local/bin:/usr/bin:/bin"

export interface Command {
  /** The executable and its arguments, not interpreted by a shell. */
  readonly argv: readonly [string, ...ReadonlyArray<string>]
  /** Absolute path of the working directory. */
  readonly directory: string
  /** The resolved directory must be inside this path. Empty allows any directory. */
  readonly root: string
  /** The complete environment: the child inherits nothing from this process. */
  readonly environment: Readonly<Record<string, string>>
}

/** The operating system refused to start the process. */
export class SpawnFailed extends Data.TaggedError("SpawnFailed")<{
  readonly reason: string
  /** Whether a retry would fail the same way. */
  readonly permanent: boolean
}> {
  override get message(): string {
    return this.reason
  }
}

/** The exit code, or the signal that ended the process. */
export interface Ended {
  readonly code: number | undefined
  readonly signal: NodeJS.Signals | undefined
}

/** A process that leads its own process group. */
export interface ChildProcess {
  readonly pid: number
  readonly stdin: Writable
  readonly stdout: Readable
  readonly stderr: Readable
  readonly ended: Effect.Effect<Ended>
  /**
   * Completes when the process has ended and its output is read to EOF. Never completes while another process holds the
   * output open.
   */
  readonly drained: Effect.Effect<void>
  /** The gate's reason for not running the command, if stderr holds one. */
  readonly refusalIn: (stderr: string) => string | undefined
  /**
   * Ends the whole group: SIGTERM, then SIGKILL after a grace period. Returns when the group is gone and its output is
   * read.
   */
  readonly end: Effect.Effect<void>
}

const permanentCodes = new Set(["E2BIG", "EACCES", "ENOENT", "ENOTDIR", "ERR_INVALID_ARG_VALUE"])

const spawnFailed = (error: unknown): SpawnFailed => {
  const code = error instanceof Error && "code" in error ? String(error.code) : ""
  const message = error instanceof Error ? error.message : String(error)
  const reason = code === "E2BIG" ? "its arguments and environment exceed the system's size limit" : message
  return new SpawnFailed({ reason, permanent: permanentCodes.has(code) })
}

/** Strips the shell's prefix (`gate-…: 9: exec: …`) from the message. */
const plainRefusal = (text: string, name: string): string =>
  (text.split("\n")[0] ?? "").slice(name.length + 2).replace(/^(?:line )?\d+: (?:exec: |cd: )?/, "")

const launch = (reaper: ChildReaper, { argv, directory, environment, root }: Command) =>
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
    reaper.watch(pid)
    const gateInput = child.stdio[3] as Writable
    for (const stream of [stdin, stdout, stderr, gateInput]) stream.on("error", () => {})
    gateInput.end("go\n")

    const exited = Deferred.unsafeMake<Ended>(FiberId.none)
    const drained = Deferred.unsafeMake<void>(FiberId.none)
    // The system may reuse the pid once the process has been reaped, so never signal it again.
    let reaped = false
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
        end: Effect.suspend(() => (reaped ? Effect.void : ProcessGroup.end(pid))).pipe(
          // A descendant that left the group may hold the pipes open forever.
          Effect.zipRight(ProcessGroup.within(Deferred.await(drained), drainTimeout)),
          Effect.zipRight(
            Effect.sync(() => {
              for (const stream of [stdin, stdout, stderr]) stream.destroy()
              reaped = true
              reaper.forget(pid)
            })
          )
        )
      })
    )
  })

/** Starts a command in its own process group. The group ends when the Scope closes or this process ends. */
export const spawn = (reaper: ChildReaper, command: Command): Effect.Effect<ChildProcess, SpawnFailed, Scope.Scope> =>
  Effect.acquireRelease(launch(reaper, command), ({ end }) => end)
