import { readdir, readFile } from "node:fs/promises"
import { Clock, type Duration, Effect, Option } from "effect"

// A process group is identified by the pid of its leader.

/**
 * Time between SIGTERM and SIGKILL. Together with `killTimeout` it stays below the five seconds after which a slot is
 * abandoned.
 */
const termGrace: Duration.DurationInput = "3 seconds"
const killTimeout: Duration.DurationInput = "1 second"

// Processes end in real time, even under a test clock.
const machineClock = Clock.make()

/** Waits for an effect at most `limit` of real time. Interruptible even while a Scope closes. */
export const within = <A>(effect: Effect.Effect<A>, limit: Duration.DurationInput): Effect.Effect<Option.Option<A>> =>
  Effect.withClock(Effect.timeoutOption(Effect.interruptible(effect), limit), machineClock)

/** Sends a signal to the group. Returns false if the group is empty. */
const signal = (group: number, name: NodeJS.Signals | 0): boolean => {
  try {
    return process.kill(-group, name)
  } catch (error) {
    // EPERM: the group has a process that we may not signal.
    return error instanceof Error && "code" in error && error.code === "EPERM"
  }
}

/** Whether the process with this `/proc/PID/stat` line belongs to the group and is not a zombie. */
const isLiveMember = (group: number, stat: string): boolean => {
  // The process name may contain spaces and brackets, so parse after the last bracket: state, parent, group.
  const [state, , own] = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  return own === String(group) && state !== "Z" && state !== "X"
}

/**
 * Whether the group has a process that is not a zombie. If a container's init does not reap orphans, zombies stay in
 * the group.
 */
const hasLiveProcess = async (group: number): Promise<boolean> => {
  const processes = await readdir("/proc").catch(() => undefined)
  if (processes === undefined) return true
  const stats = await Promise.all(
    processes.filter((name) => /^\d+$/.test(name)).map((pid) => readFile(`/proc/${pid}/stat`, "utf8").catch(() => ""))
  )
  return stats.some((stat) => isLiveMember(group, stat))
}

/** Polls until the group is gone. Signal 0 is cheap; scanning /proc is not, so it runs on every tenth poll. */
const isGone = (group: number, polls = 0): Effect.Effect<void> =>
  Effect.suspend(() => {
    if (!signal(group, 0)) return Effect.void
    if (polls % 10 !== 5) return Effect.delay(isGone(group, polls + 1), "20 millis")
    return Effect.flatMap(
      Effect.promise(() => hasLiveProcess(group)),
      (alive) => (alive ? isGone(group, polls + 1) : Effect.void)
    )
  })

/** Ends the group with SIGTERM, then SIGKILL. Returns when it is gone, or `killTimeout` after SIGKILL. */
export const end = (group: number): Effect.Effect<void> =>
  Effect.gen(function* () {
    if (!signal(group, "SIGTERM")) return
    if (Option.isSome(yield* within(isGone(group), termGrace))) return
    signal(group, "SIGKILL")
    yield* within(isGone(group), killTimeout)
  })
