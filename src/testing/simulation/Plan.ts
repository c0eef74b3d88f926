import { allProcesses, type Fault, type FaultRates, noFaults } from "./Faults.js"
import { Dice, digest } from "./Seed.js"

// The fault plan: operations and faults with their times. It is generated from the seed as plain data, so that it can
// be printed, replayed and shrunk.

/** What a remote worker does with the jobs that it has claimed. One that is late sends no heartbeats. */
export type RemoteAct = "finishes" | "finishes twice" | "fails" | "returns" | "dies" | "is late"

/** One action of a plan: traffic, an operator's request, or a fault. */
export type Step = {
  /** When it happens, in milliseconds since the start. */
  readonly at: number
} & (
  | {
      /** The client enqueues a job. */
      readonly _tag: "Enqueue"
      /** Index of the job, from 1. */
      readonly nth: number
      /** The pod whose HTTP server gets the request. Without one, the client enqueues on its own connection. */
      readonly pod?: string | undefined
    }
  | {
      /** A webhook that is resent until a pod accepts it. */
      readonly _tag: "Deliver"
      /** Index of the webhook, from 1. */
      readonly nth: number
    }
  | {
      /** A file that its workspace fetches and acknowledges. */
      readonly _tag: "Upload"
      /** Index of the file, from 1. */
      readonly nth: number
      /** The pod that gets the first request; later requests go to the next pods. Without one, as in Enqueue. */
      readonly pod?: string | undefined
    }
  | {
      /** An event that its publisher repeats until a pod answers, and once more. */
      readonly _tag: "Publish"
      /** Index of the event, from 1. */
      readonly nth: number
      /** The pod that gets the first request; later requests go to the next pods. */
      readonly pod: string
    }
  | {
      /** A remote worker claims jobs. */
      readonly _tag: "Work"
      /** Index of the worker, from 1. */
      readonly nth: number
      /** The pod that gets the claim; later requests may go to the next pods. */
      readonly pod: string
      /** What the worker does with its jobs. */
      readonly how: RemoteAct
    }
  | {
      /** An operator acts on a job. */
      readonly _tag: "Cancel" | "Requeue" | "RunNow"
      /** Index of the job, from 1. */
      readonly nth: number
      /** The pod whose HTTP server gets the request; the operator sends it only once. Without one, as in Enqueue. */
      readonly pod?: string | undefined
    }
  | {
      /** An operator erases a subject, again and again until nothing is left. */
      readonly _tag: "Erase"
      /** Index of the subject, from 1. */
      readonly nth: number
      /** The pod that gets the first request; later requests go to the next pods. Without one, as in Enqueue. */
      readonly pod?: string | undefined
    }
  | {
      /** A pod ends without cleanup. It restarts under a new name. */
      readonly _tag: "Kill"
      /** Name of the pod. */
      readonly pod: string
      /** How long the database keeps the lock of the dead process, in milliseconds. [0] */
      readonly lockedMillis?: number | undefined
    }
  | {
      /** A pod stops gracefully. It restarts under a new name. */
      readonly _tag: "Stop"
      /** Name of the pod. */
      readonly pod: string
    }
  | {
      /** The database ends the session in which a pod holds its lock, although the pod lives. */
      readonly _tag: "LoseLock"
      /** Name of the pod. */
      readonly pod: string
      /** When the pod takes the lock again, in milliseconds. */
      readonly millis: number
    }
  | {
      /** A pod makes no progress, as if its process were suspended. */
      readonly _tag: "Freeze"
      /** Name of the pod. */
      readonly pod: string
      /** How long it is frozen, in milliseconds. */
      readonly millis: number
    }
  | {
      /** Connections to the database break and cannot be opened again for a while. */
      readonly _tag: "Disconnect"
      /** Name of the pod, or `all` for every process. */
      readonly pod: string
      /** How long there is no connection, in milliseconds. */
      readonly millis: number
    }
  | {
      /** An operator pauses a queue and resumes it later. */
      readonly _tag: "PauseQueue"
      /** Name of the queue. */
      readonly queue: string
      /** How long it is paused, in milliseconds. */
      readonly millis: number
      /** The pod that gets the request to pause. The client resumes the queue. */
      readonly pod?: string | undefined
    }
  | {
      /** A pod reads a wrong time from the database. */
      readonly _tag: "SkewClock"
      /** Name of the pod. */
      readonly pod: string
      /** Error of the reading in milliseconds; negative is too early. */
      readonly millis: number
    }
  | {
      /** The database's clock steps forward or back. */
      readonly _tag: "StepClock"
      /** Length of the step in milliseconds; negative is back. */
      readonly millis: number
    }
)

/** What happens in a simulation, and when. Plain data, so that it can be printed, replayed and shrunk. */
export interface Plan {
  /** Number of simulated processes. */
  readonly pods: number
  /** Whether the clocks of some pods run slow. [false] */
  readonly slowClocks?: boolean | undefined
  /** Actions and faults, by time. */
  readonly steps: ReadonlyArray<Step>
  /** Fault probabilities, or an exact list of faults. */
  readonly faults: FaultRates | ReadonlyArray<Fault>
}

/** Types of faults to inject; all by default. */
export interface FaultPlan {
  /** Operations that fail, are slow or lose their reply, lost notifications and locks, and disconnects. [true] */
  readonly database?: boolean | undefined
  /** Pods that are killed, stopped or frozen, and locks of dead pods that are freed late. [true] */
  readonly pods?: boolean | undefined
  /** Operators that cancel, requeue, run jobs now, pause queues, and erase subjects. [true] */
  readonly operators?: boolean | undefined
  /** Steps of the database's clock by minutes, as after a failover to a server with a different clock. [true] */
  readonly clock?: boolean | undefined
}

export interface PlanOptions {
  readonly seed: number
  readonly pods: number
  readonly jobs: number
  readonly queues: ReadonlyArray<string>
  /** Whether to send webhooks and files, and some enqueues through a pod. */
  readonly viaEntryPoints: boolean
  /** The queue of remote workers. Undefined if no job is for them. */
  readonly remoteQueue: string | undefined
  /** How many subjects the jobs have. */
  readonly subjects: number
  readonly faultPlan: FaultPlan
}

/** Milliseconds during which faults are injected. */
export const faultPeriod = 20_000

/** Size of a seed's cluster: small ones are the most common in production, and more of them fit into a minute. */
export const size = (seed: number): { readonly pods: number; readonly jobs: number } => {
  const dice = new Dice(digest("size", seed))
  return { pods: dice.pick(1, 2, 2, 3, 3), jobs: dice.whole(4, 14) }
}

const podName = (number: number) => `pod-${number}`
export const podNames = (pods: number): ReadonlyArray<string> =>
  Array.from({ length: pods }, (_, index) => podName(index + 1))

const drawRates = (dice: Dice): FaultRates => {
  const share = dice.pick(0, 0.01, 0.03, 0.08)
  return { ...noFaults, refused: share, lost: share, slow: share / 4, dropped: dice.pick(0, 0.1, 0.5, 1) }
}

/** Kills and disconnects in the middle of an operation, in some seeds. Uses its own random generator. */
const drawTargeted = ({ faultPlan, seed }: PlanOptions): Pick<FaultRates, "disconnected" | "killed"> => {
  const dice = new Dice(digest("targeted", seed))
  const [disconnected, killed] = [dice.pick(0, 0, 0.03), dice.pick(0, 0, 0.03)]
  return { disconnected, killed: faultPlan.pods === false ? 0 : killed }
}

const drawFault = (dice: Dice, { jobs, faultPlan, pods, queues }: PlanOptions, at: number): Step | undefined => {
  const pod = podName(dice.whole(1, pods))
  const nth = dice.whole(1, Math.max(1, jobs))
  const queue = dice.pick(queues[0] ?? "default", ...queues)
  // Either shorter or longer than the lease, so that only some pods are considered dead.
  const millis = dice.pick(dice.whole(300, 4_000), dice.whole(11_000, 18_000))
  const podStep = dice.pick<Step>(
    { at, _tag: "Kill", pod },
    { at, _tag: "Stop", pod },
    { at, _tag: "Freeze", pod, millis }
  )
  const cut: Step = { at, _tag: "Disconnect", pod: dice.chance(0.3) ? allProcesses : pod, millis: millis }
  const operator = dice.pick<Step>(
    { at, _tag: "Cancel", nth },
    { at, _tag: "Requeue", nth },
    { at, _tag: "RunNow", nth },
    { at, _tag: "PauseQueue", queue, millis: dice.whole(500, 12_000) }
  )
  const possible = [
    ...(faultPlan.pods === false ? [] : [podStep, podStep]),
    ...(faultPlan.database === false ? [] : [cut]),
    ...(faultPlan.operators === false ? [] : [operator, operator])
  ]
  return possible[dice.whole(0, possible.length - 1)]
}

/** Uses its own random generator, so that disabling clock steps leaves the rest of the plan unchanged. */
const drawClockSteps = ({ faultPlan, pods, seed }: PlanOptions, last: number): ReadonlyArray<Step> => {
  const dice = new Dice(digest("clock", seed))
  const count = faultPlan.clock === false ? 0 : dice.pick(0, 0, 0, 1, 1, 2)
  const pod = podName(dice.whole(1, pods))
  return Array.from({ length: count }, (): Step => {
    const at = dice.whole(100, last)
    return dice.chance(0.4)
      ? { at, _tag: "SkewClock", pod, millis: dice.pick(-30_000, -12_000, 12_000, 30_000) }
      : { at, _tag: "StepClock", millis: dice.pick(-120_000, -60_000, 60_000, 300_000) }
  })
}

/**
 * A lock that is lost while its pod is alive, a death whose lock is freed late, or both at once. Uses its own random generator
 * too.
 */
const drawLockSteps = ({ faultPlan, pods, seed }: PlanOptions, last: number): ReadonlyArray<Step> => {
  const dice = new Dice(digest("locks", seed))
  const count = dice.pick(0, 0, 0, 1, 1, 2)
  return Array.from({ length: count }, (): ReadonlyArray<Step> => {
    // Half of the faults are late: a pod must be undisturbed for ten seconds to declare another one dead.
    const at = dice.pick(dice.whole(100, last), faultPeriod - dice.whole(2_000, 6_000))
    const [living, dead] = [podName(dice.whole(1, pods)), podName(dice.whole(1, pods))]
    const millis = dice.pick(dice.whole(200, 3_000), dice.whole(5_000, 9_000))
    const what = dice.pick("lost", "late", "both")
    const isLost = what !== "late" && faultPlan.database !== false
    const isLate = what !== "lost" && faultPlan.pods !== false
    return [
      ...(isLost ? [{ at, _tag: "LoseLock", pod: living, millis } as const] : []),
      ...(isLate ? [{ at, _tag: "Kill", pod: dead, lockedMillis: millis } as const] : [])
    ]
  }).flat()
}

/** Webhooks and files, and the enqueues that go through a pod. Uses its own random generator too. */
const throughEntryPoints = (
  { pods, seed, viaEntryPoints }: PlanOptions,
  arrivals: ReadonlyArray<Step>,
  span: number
) => {
  if (!viaEntryPoints) return arrivals
  const dice = new Dice(digest("doors", seed))
  const steps = arrivals.map((step) =>
    step._tag === "Enqueue" && dice.chance(0.4) ? { ...step, pod: podName(dice.whole(1, pods)) } : step
  )
  const sent = (_tag: "Deliver" | "Upload", count: number) =>
    Array.from({ length: count }, (_, index): Step => ({ at: dice.whole(0, span), _tag, nth: index + 1 }))
  const deliveries = sent("Deliver", dice.pick(0, 1, 1, 2))
  const uploads = sent("Upload", dice.pick(0, 0, 1, 2)).map((step) =>
    dice.chance(0.6) ? { ...step, pod: podName(dice.whole(1, pods)) } : step
  )
  return [...steps, ...deliveries, ...uploads, ...drawEvents(pods, seed, span)]
}

/** Events with two subscribers. Uses its own random generator too. */
const drawEvents = (pods: number, seed: number, span: number): ReadonlyArray<Step> => {
  const dice = new Dice(digest("events", seed))
  return Array.from({ length: dice.pick(0, 0, 1, 2) }, (_, index): Step => {
    const pod = podName(dice.whole(1, pods))
    return { at: dice.whole(0, span), _tag: "Publish", nth: index + 1, pod }
  })
}

/**
 * Remote workers, and a pause of their queue. Early, so that a late end is not later than the faults by much. Uses its own
 * random generator too.
 */
const drawRemote = ({ pods, faultPlan, remoteQueue, seed }: PlanOptions, span: number): ReadonlyArray<Step> => {
  if (remoteQueue === undefined) return []
  const dice = new Dice(digest("remote", seed))
  const anyPod = () => podName(dice.whole(1, pods))
  const workers = Array.from({ length: dice.whole(1, 3) }, (_, index): Step => {
    const how = dice.pick<RemoteAct>("finishes", "finishes twice", "fails", "returns", "dies", "is late")
    return { at: dice.whole(500, 1_500 + Math.min(span, 6_000)), _tag: "Work", nth: index + 1, pod: anyPod(), how }
  })
  const at = dice.whole(500, 6_000)
  const pause: Step = { at, _tag: "PauseQueue", queue: remoteQueue, millis: dice.whole(500, 6_000), pod: anyPod() }
  return dice.chance(0.3) && faultPlan.operators !== false ? [...workers, pause] : workers
}

/** Erases each subject while its jobs run. Uses its own random generator too. */
const drawErasures = ({ faultPlan, pods, seed, subjects }: PlanOptions, last: number): ReadonlyArray<Step> => {
  const dice = new Dice(digest("erasures", seed))
  const count = faultPlan.operators === false ? 0 : subjects
  return Array.from({ length: count }, (_, index): Step => {
    const pod = dice.chance(0.7) ? podName(dice.whole(1, pods)) : undefined
    return { at: dice.whole(1_000, last), _tag: "Erase", nth: index + 1, ...(pod === undefined ? {} : { pod }) }
  })
}

/** Sends some of the operators' requests through a pod. Uses its own random generator too. */
const throughPods = ({ pods, seed, viaEntryPoints }: PlanOptions, steps: ReadonlyArray<Step>): ReadonlyArray<Step> => {
  const dice = new Dice(digest("operators", seed))
  return steps.map((step) => {
    const pod = dice.chance(0.5) ? podName(dice.whole(1, pods)) : undefined
    const isRequest = ["Cancel", "Requeue", "RunNow", "PauseQueue"].includes(step._tag)
    return viaEntryPoints && isRequest && pod !== undefined ? { ...step, pod } : step
  })
}

const byTime = (a: Step, b: Step) => a.at - b.at

/** Generates the plan of a seed. */
export const draw = (options: PlanOptions): Plan => {
  const dice = new Dice(digest("plan", options.seed))
  const rates = drawRates(dice)
  // Enqueues arrive in a burst or spread out.
  const span = dice.pick(10, 5_000, 15_000)
  const arrivals = Array.from(
    { length: options.jobs },
    (_, index): Step => ({ at: dice.whole(0, span), _tag: "Enqueue", nth: index + 1 })
  )
  const count = dice.whole(0, 14)
  // Place faults while there are jobs to run.
  const last = Math.min(faultPeriod - 2_000, span + 6_000)
  const faultPlan = Array.from({ length: count }, () => drawFault(dice, options, dice.whole(100, last)))
  return {
    pods: options.pods,
    slowClocks: options.faultPlan.clock !== false,
    steps: [
      ...throughEntryPoints(options, arrivals, span),
      ...throughPods(
        options,
        faultPlan.filter((step) => step !== undefined)
      ),
      ...drawRemote(options, span),
      ...drawClockSteps(options, last),
      ...drawLockSteps(options, last),
      ...drawErasures(options, last)
    ].sort(byTime),
    faults: options.faultPlan.database === false ? [] : { ...rates, ...drawTargeted(options) }
  }
}

/** How often each type of step occurs. Clock steps count by direction. */
export const stepCounts = ({ steps }: Plan): Readonly<Record<string, number>> => {
  const counts: Record<string, number> = {}
  for (const step of steps) {
    const name = step._tag === "StepClock" ? `StepClock ${step.millis < 0 ? "back" : "forward"}` : step._tag
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}
