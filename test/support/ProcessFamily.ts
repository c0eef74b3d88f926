import { execFileSync } from "node:child_process"
import { Effect, Schedule } from "effect"

/** Every descendant of this process, as the operating system reports it. */
export const below = (pid: number): Effect.Effect<ReadonlyArray<number>> =>
  Effect.sync(() => {
    const rows = execFileSync("ps", ["-eo", "pid=,ppid="], { encoding: "utf8" }).trim().split("\n")
    const parents = new Map(rows.map((row) => row.trim().split(/ +/).map(Number) as [number, number]))
    const isBelow = (candidate: number | undefined): boolean =>
      candidate !== undefined && (parents.get(candidate) === pid || isBelow(parents.get(candidate)))
    return [...parents.keys()].filter((candidate) => isBelow(candidate))
  })

const isAlive = (pid: number) => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** Waits until none of them lives; fails with the survivors. */
export const gone = (pids: ReadonlyArray<number>) =>
  Effect.sync(() => pids.filter(isAlive)).pipe(
    Effect.filterOrFail((alive) => alive.length === 0),
    Effect.retry(Schedule.spaced("50 millis").pipe(Schedule.upTo("20 seconds")))
  )
