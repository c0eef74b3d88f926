import { Effect, Schedule, type Scope } from "effect"
import * as DurationText from "../../core/DurationText.js"
import { type Loop, repeated } from "../../core/Loop.js"
import { after, makeLatch, onEvent } from "../../core/LoopSchedule.js"
import { Hints } from "../../database/Hints.js"
import { cancelTopic } from "../../queue/JobAdmin.js"
import { type HeldJob, Queue } from "../../queue/Queue.js"
import { runLoop } from "../../telemetry/LoopRunner.js"
import type { Metrics } from "../../telemetry/Metrics.js"
import { Finalizer } from "../slots/Finalizer.js"
import { Supervisors } from "../slots/Supervisor.js"
import { WorkerConfig } from "../WorkerConfig.js"

/** The jobs of this pod: claimed, running, or with a result that cannot be written yet. */
const makeHeld = Effect.gen(function* () {
  const supervisors = yield* Supervisors
  const finalizer = yield* Finalizer
  return (): ReadonlyArray<HeldJob> => [
    ...[...supervisors.values()].flatMap((supervisor) => supervisor.held()),
    ...finalizer.held()
  ]
})

/** Sends the heartbeat of this pod's jobs and stops jobs whose lease was lost or that were cancelled. */
const makeBeat = Effect.gen(function* () {
  const queue = yield* Queue
  const supervisors = yield* Supervisors
  const stillHeld = yield* makeHeld
  return (held: ReadonlyArray<HeldJob>) =>
    Effect.gen(function* () {
      const pulse = yield* queue.heartbeat(held)
      const keyOf = ({ id, lease }: HeldJob) => `${id} ${lease}`
      // A job that ended while the statement ran is not lost.
      const still = pulse.lost.length === 0 ? undefined : new Set(stillHeld().map(keyOf))
      const lost = pulse.lost.filter((job) => still?.has(keyOf(job)) === true)
      for (const supervisor of supervisors.values()) {
        yield* Effect.forEach(lost, (job) => supervisor.stop(job, "lost"), { discard: true })
        yield* Effect.forEach(pulse.cancelRequested, (job) => supervisor.stop(job, "cancelled"), { discard: true })
      }
      return { lost: lost.length, cancelled: pulse.cancelRequested.length }
    })
})

const make = (
  untilHeld: Effect.Effect<void>
): Effect.Effect<Loop, never, Queue | Supervisors | Finalizer | WorkerConfig> =>
  Effect.gen(function* () {
    const held = yield* makeHeld
    const { heartbeat } = yield* WorkerConfig
    const beat = yield* makeBeat
    return {
      name: "heartbeat",
      about: `every ${DurationText.format(heartbeat)}, for all running jobs at once`,
      // An idle pod waits until it has a job and sends the first heartbeat one interval later.
      schedule: after(untilHeld, Schedule.spaced(heartbeat)),
      runAtStart: false,
      steps: [{ name: "beat", timeout: heartbeat, run: Effect.suspend(() => beat(held())) }]
    }
  })

/**
 * Sends heartbeats while this pod holds jobs, until the Scope closes. Returns a function to call when the pod receives
 * a job.
 */
export const start: Effect.Effect<
  () => void,
  never,
  Queue | Supervisors | Finalizer | WorkerConfig | Metrics | Scope.Scope
> = Effect.gen(function* () {
  const held = yield* makeHeld
  const latch = makeLatch()
  const untilHeld = Effect.suspend(() => (held().length > 0 ? Effect.void : latch.opened))
  yield* runLoop(yield* make(untilHeld))
  return latch.open
})

/**
 * Stops cancelled jobs before the next heartbeat, until the Scope closes. A hint proves nothing, so the database is
 * checked before a job is stopped.
 */
export const listenForCancels: Effect.Effect<void, never, Queue | Hints | Supervisors | Finalizer | Scope.Scope> =
  Effect.gen(function* () {
    const held = yield* makeHeld
    const hints = yield* Hints
    const beat = yield* makeBeat
    const named = new Set<string>()
    const latch = makeLatch()
    yield* hints.subscribe(cancelTopic, (id) => {
      if (id === undefined) return
      named.add(id)
      latch.open()
    })
    const stopCancelled = Effect.suspend(() => {
      const signalled = held().filter(({ id }) => named.has(id))
      named.clear()
      return signalled.length === 0 ? Effect.void : Effect.asVoid(beat(signalled))
    }).pipe(
      Effect.catchAll((error) =>
        Effect.logDebug("could not check for cancelled jobs; they are stopped at the next heartbeat", error)
      )
    )
    yield* Effect.forkScoped(
      repeated({ name: "cancels", schedule: onEvent(latch.opened), runAtStart: false, run: stopCancelled })
    )
  })
