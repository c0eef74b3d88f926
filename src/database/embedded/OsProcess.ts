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
 * Where a pid names the same process for everyone: one boot of one machine, one pid namespace.
 * Two containers may share a hostname, and a container gets a new one at each start, so the hostname alone is not it.
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

/** When a process began, in the system's own words; none when it has ended, be it still unreaped. */
export const startOf = (pid: number): Effect.Effect<Option.Option<string>> =>
  Effect.gen(function* () {
    if (!signalReaches(pid)) return Option.none()
    if (process.platform === "darwin") {
      const [state = "", ...start] = (yield* ps(pid)).split(/\s+/)
      return state === "" || state.startsWith("Z") ? Option.none() : Option.some(start.join(" "))
    }
    const stat = yield* read(() => readFile(`/proc/${pid}/stat`, "utf8"))
    // The name of a process may hold blanks and brackets; the fields after its last bracket are plain: state, then the
    // start in ticks since boot as the twentieth.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
    if (fields[0] === "Z" || fields[0] === "X") return Option.none()
    // Alive but hidden from us (hidepid): taken for the one we look for, because the other error would cost data.
    return Option.some(fields[19] ?? "")
  })

/** Whether the process that began then still runs: a pid alone may have passed on to a stranger. */
export const isSame = (pid: number, start: string): Effect.Effect<boolean> =>
  Effect.map(
    startOf(pid),
    Option.exists((found) => found === start || found === "" || start === "")
  )

/** Whether the process is a PostgreSQL server that works in this directory. */
export const isServerOf = (pid: number, directory: string): Effect.Effect<boolean> =>
  Effect.gen(function* () {
    if (Option.isNone(yield* startOf(pid))) return false
    if (process.platform === "linux") return (yield* read(() => readlink(`/proc/${pid}/cwd`))) === directory
    return yield* Effect.async<boolean>((resume) => {
      execFile("/bin/ps", ["-o", "command=", "-p", `${pid}`], (_, stdout) =>
        resume(Effect.succeed(stdout.includes("postgres") && stdout.includes(directory)))
      )
    })
  })
