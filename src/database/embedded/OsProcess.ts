import { execFile } from "node:child_process"
import { readFile, readlink } from "node:fs/promises"
import { hostname } from "node:os"
import { Effect, Option } from "effect"

const read = (run: () => Promise<string>): Effect.Effect<string> =>
  Effect.tryPromise(run).pipe(
    Effect.map((text) => text.trim()),
    Effect.orElseSucceed(() => "")
  )

const ps = (pid: number): Effect.Effect<string> =>
  Effect.async((resume) => {
    execFile(
      "/bin/ps",
      ["-o", "stat=", "-o", "lstart=", "-p", `${pid}`],
      { env: { LC_ALL: "C", TZ: "UTC" } },
      (_, stdout) => resume(Effect.succeed(stdout.trim()))
    )
  })

/**
 * Identifies the scope in which a pid is unique: one boot of one machine and one pid namespace. The hostname alone is
 * not enough, because two containers may share one and a restarted container gets a new one.
 */
export const place: Effect.Effect<string> = Effect.gen(function* () {
  const boot = yield* read(() => readFile("/proc/sys/kernel/random/boot_id", "utf8"))
  const namespace = yield* read(() => readlink("/proc/self/ns/pid"))
  return [hostname(), boot, namespace].join(" ")
})

const signalReaches = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM"
  }
}

/** Returns the start time of a process in the system's format; none if it has exited, even if it is still a zombie. */
export const processStart = (pid: number): Effect.Effect<Option.Option<string>> =>
  Effect.gen(function* () {
    if (!signalReaches(pid)) return Option.none()
    if (process.platform === "darwin") {
      const [state = "", ...start] = (yield* ps(pid)).split(/\s+/)
      return state === "" || state.startsWith("Z") ? Option.none() : Option.some(start.join(" "))
    }
    const stat = yield* read(() => readFile(`/proc/${pid}/stat`, "utf8"))
    // The process name may contain spaces and parentheses, so parse the fields after the last parenthesis: the first is
    // the state, the twentieth the start time in ticks since boot.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
    if (fields[0] === "Z" || fields[0] === "X") return Option.none()
    // Alive but hidden (hidepid). Treated as the expected process: a wrong "dead" could corrupt data.
    return Option.some(fields[19] ?? "")
  })

/** Whether the process with this pid and start time still runs. The pid alone may have been reused. */
export const isSame = (pid: number, start: string): Effect.Effect<boolean> =>
  Effect.map(
    processStart(pid),
    Option.exists((found) => found === start || found === "" || start === "")
  )

/** Whether the process is a PostgreSQL server on this directory. */
export const isServerOf = (pid: number, directory: string): Effect.Effect<boolean> =>
  Effect.gen(function* () {
    if (Option.isNone(yield* processStart(pid))) return false
    if (process.platform === "linux") return (yield* read(() => readlink(`/proc/${pid}/cwd`))) === directory
    return yield* Effect.async<boolean>((resume) => {
      execFile("/bin/ps", ["-o", "command=", "-p", `${pid}`], (_, stdout) =>
        resume(Effect.succeed(stdout.includes("postgres") && stdout.includes(directory)))
      )
    })
  })
