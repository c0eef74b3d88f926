import { Effect, Schema } from "effect"
import type { KindDefaults } from "../../core/KindDefaults.js"
import * as Outcome from "../../core/Outcome.js"
import * as Core from "../../handlers/Handler.js"
import * as Job from "../../queue/Job.js"
import { Queue } from "../../queue/Queue.js"
import { jobOf } from "../../queue/workflow/ExecutionJob.js"
import { checkEvent, type EventDefinition } from "../EventDefinition.js"
import type { CoreHandler } from "../PromiseHandler.js"
import { InvalidPayloadError } from "../ShiftErrors.js"
import { declared } from "../Subscriber.js"
import { idOf, keyOf } from "./ExecutionHandle.js"

// `startOn` of a workflow. The key of an execution is computed by code, which the publisher of an event may not have: the event
// makes a job that starts the execution. The key of the execution makes a second run of that job safe.

/** What is started: the kind of a workflow, and how it validates its payload. */
interface Target<In> {
  readonly kind: KindDefaults
  readonly encode: (payload: In) => unknown
}

/** The subscriber that starts executions of a workflow. */
export const starter = <In>(
  workflow: string,
  { encode, kind }: Target<In>,
  event: EventDefinition<In>,
  key: ((payload: In) => string) | undefined
): CoreHandler => {
  checkEvent(`startOn of "${workflow}"`, event)
  const as = `${workflow}:start`
  const queue = kind.routed === true ? undefined : kind.queue
  const subscriber = {
    ...Job.make(as, { payload: Schema.Unknown, queue }),
    subscribes: declared(event.name, { as }).subscribes
  }
  return Core.make(subscriber, (data, { id, meta }) =>
    Effect.gen(function* () {
      const payload = yield* Effect.tryPromise({ try: async () => encode(data as In), catch: (error) => error })
      const { event: about } = (meta ?? {}) as { readonly event?: { readonly id: string } }
      const execution = idOf(workflow, keyOf(workflow, key, data as In) ?? about?.id ?? id)
      const { enqueue } = yield* Queue
      const [stored] = yield* enqueue([jobOf({ ...Job.jobOf(kind, { payload }), execution })])
      return { execution, job: stored?.id, outcome: stored?.outcome === "enqueued" ? "started" : "existing" }
    }).pipe(
      Effect.catchIf(
        (error) => error instanceof InvalidPayloadError,
        (error) => Effect.succeed(Outcome.dead((error as InvalidPayloadError).message))
      )
    )
  ) as unknown as CoreHandler
}
