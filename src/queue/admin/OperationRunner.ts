import { Clock, Duration, Effect, Option, Schedule, type Scope } from "effect"
import type { Loop } from "../../core/Loop.js"
import { makeLatch, wakeable } from "../../core/LoopSchedule.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { Hints } from "../../database/Hints.js"
import { type Operation, type OperationNotFound, Operations, operationTopic } from "./Operations.js"
import { isWaiting } from "./Rehearsal.js"

/** Maximum length of a pass; the next one follows at once. Bounded, so that a stuck pass is detected. */
const turnLength = Duration.toMillis("20 seconds")

/**
 * New operations are signalled. Operations that another pod left behind are found by polling, once per this many polls.
 */
const pollsPerCheck = 5

/** Time between two looks at the jobs of a rehearsal. */
const rehearsalPoll = Duration.seconds(1)

const isWaitingFor = ({ finishedAt, rehearsal }: Operation) => finishedAt === undefined && isWaiting(rehearsal)

/** Runs bulk operations batch by batch until none is left, including those started on other pods. A hint starts a pass at once. */
export const make = (poll: Duration.Duration): Effect.Effect<Loop, never, Operations | Hints | Scope.Scope> =>
  Effect.gen(function* () {
    const operations = yield* Operations
    const hints = yield* Hints
    const latch = makeLatch()
    yield* hints.subscribe(operationTopic, latch.open)

    /** Rehearsals that this process has seen waiting for their jobs. */
    const rehearsals = new Set<string>()
    const scope = yield* Effect.scope
    let isTimed = false

    /** Looks at rehearsals more often than at operations that another process may have left behind. */
    const followRehearsals = Effect.gen(function* () {
      for (const id of rehearsals) {
        const waits = yield* Effect.map(operations.get(id), (operation) => isWaitingFor(operation)).pipe(
          Effect.catchTag("OperationNotFound", () => Effect.succeed(false))
        )
        if (!waits) rehearsals.delete(id)
      }
      if (rehearsals.size === 0 || isTimed) return
      isTimed = true
      const wake = Effect.sync(() => {
        isTimed = false
        latch.open()
      })
      yield* Effect.forkIn(Effect.delay(wake, rehearsalPoll), scope)
    })

    const runBatches = Effect.gen(function* () {
      const began = yield* Clock.currentTimeMillis
      let batches = 0
      for (;;) {
        const stepped = yield* operations.step()
        if (Option.isNone(stepped)) {
          yield* followRehearsals
          return { batches }
        }
        if (isWaitingFor(stepped.value)) rehearsals.add(stepped.value.id)
        batches += 1
        if ((yield* Clock.currentTimeMillis) - began < turnLength) continue
        latch.open()
        return { batches }
      }
    })

    return {
      name: "operations",
      about: "running bulk operations",
      schedule: wakeable(Schedule.spaced(Duration.times(poll, pollsPerCheck)), latch.openedWithin),
      runAtStart: true,
      steps: [{ name: "run batches", timeout: "1 minute", run: runBatches }]
    }
  })

/** Pauses only while another process works on the operation. */
const untilEnded = Schedule.identity<{ readonly operation: Operation; readonly isElsewhere: boolean }>().pipe(
  Schedule.whileInput(({ operation }) => operation.status === "running"),
  Schedule.addDelay(({ isElsewhere }) => (isElsewhere ? "200 millis" : "0 millis"))
)

/**
 * Runs one operation to its end in this process, for a caller that waits for it. A pod may work on it at the same time; then
 * this process polls. If this process exits, a pod continues.
 */
export const runToEnd = (
  id: string,
  onProgress: (operation: Operation) => Effect.Effect<void> = () => Effect.void
): Effect.Effect<Operation, OperationNotFound | DatabaseError, Operations> =>
  Effect.gen(function* () {
    const operations = yield* Operations
    const stepped = yield* operations.step(id)
    const operation = Option.isSome(stepped) ? stepped.value : yield* operations.get(id)
    yield* onProgress(operation)
    return { operation, isElsewhere: Option.isNone(stepped) }
  }).pipe(
    Effect.repeat(untilEnded),
    Effect.map(({ operation }) => operation)
  )
