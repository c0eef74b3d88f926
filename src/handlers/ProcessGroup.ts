import { readdir, readFile } from "node:fs/promises"
import { Clock, type Duration, Effect, Option } from "effect"

// A process and all that it started and that stayed with it, known by the pid of the first.

/** How long a group may take to end after TERM, before KILL. A slot is given up after five seconds: this is less. */
const termGrace: Duration.DurationInput = "3 seconds"
const killPatience: Duration.DurationInput = "1 second"

// Processes end in real time, also where a test has a clock of its own.
const machineClock = Clock.make()

/** Waits so long and no longer by the machine's clock, also while a Scope closes. */
export const within = <A>(
  effect: Effect.Effect<A>,
  patience: Duration.DurationInput
): Effect.Effect<Option.Option<A>> =>
  Effect.withClock(Effect.timeoutOption(Effect.interruptible(effect), patience), machineClock)

/** Sends a signal to everybody in the group; false when nobody is left. */
const signal = (group: number, name: NodeJS.Signals | 0): boolean => {
  try {
    return process.kill(-group, name)
  } catch (error) {
    // Somebody is there whom we may not signal.
    return error instanceof Error && "code" in error && error.code === "EPERM"
  }
}

/** Whether a process, as the system describes it, is of the group and not merely waiting to be forgotten by its parent. */
const livesIn = (group: number, stat: string): boolean => {
  // The name of a process may hold blanks and brackets; the fields after its last bracket are plain: state, parent, group.
  const [state, , own] = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  return own === String(group) && state !== "Z" && state !== "X"
}

/** In a container whose first process forgets nobody, the dead stay in their group: there they are told from the living. */
const hasLiving = async (group: number): Promise<boolean> => {
  const processes = await readdir("/proc").catch(() => undefined)
  if (processes === undefined) return true
  const stats = await Promise.all(
    processes.filter((name) => /^\d+$/.test(name)).map((pid) => readFile(`/proc/${pid}/stat`, "utf8").catch(() => ""))
  )
  return stats.some((stat) => livesIn(group, stat))
}

/** Asking for a signal costs nothing; looking through all processes does, so that is for those who take long. */
const isGone = (group: number, looks = 0): Effect.Effect<void> =>
  Effect.suspend(() => {
    if (!signal(group, 0)) return Effect.void
    if (looks % 10 !== 5) return Effect.delay(isGone(group, looks + 1), "20 millis")
    return Effect.flatMap(
      Effect.promise(() => hasLiving(group)),
      (living) => (living ? isGone(group, looks + 1) : Effect.void)
    )
  })

/** Ends everybody in the group, whatever they do about TERM; returns when nobody is left. */
export const end = (group: number): Effect.Effect<void> =>
  Effect.gen(function* () {
    if (!signal(group, "SIGTERM")) return
    if (Option.isSome(yield* within(isGone(group), termGrace))) return
    signal(group, "SIGKILL")
    yield* within(isGone(group), killPatience)
  })
