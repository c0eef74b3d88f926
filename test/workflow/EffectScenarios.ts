import { Activity, DurableDeferred, DurableQueue, Workflow, WorkflowEngine } from "@effect/workflow"
import { Cause, DateTime, Deferred, Effect, Schedule, Schema } from "effect"
import {
  Approval,
  approve,
  type Code,
  complete,
  Held,
  Labels,
  nap,
  Order,
  Part,
  Refused,
  type Scenarios,
  Second,
  said,
  say,
  Verdict
} from "./EffectScenario.js"

const parts = (ids: ReadonlyArray<string>, concurrency: number | "unbounded") =>
  Effect.forEach(ids, (id) => Part.execute({ id }), { concurrency })

/** Children inside an activity, which is suspended with them. */
const inActivity = (children: ReturnType<typeof parts>) =>
  Activity.make({
    name: "parts",
    success: Schema.Array(Schema.String),
    error: Refused,
    execute: children as never
  })

const instance = WorkflowEngine.WorkflowInstance

export const scenarios: Scenarios = {
  "activities keep their results over a clock and a deferred": {
    code: ({ log }) =>
      Effect.gen(function* () {
        const charged = yield* said(log, "charge")
        yield* nap("cool off")
        const by = yield* DurableDeferred.await(Approval)
        return [charged, by, yield* said(log, "ship")]
      }),
    act: approve,
    ends: ["charge 1", "ada", "ship 3"],
    log: ["charge", "approved", "ship"]
  },
  "an activity is retried and sees its attempt": {
    code: ({ log }) =>
      Activity.make({
        name: "charge",
        success: Schema.Number,
        error: Refused,
        execute: Effect.flatMap(Activity.CurrentAttempt, (attempt) => {
          log.push(`try ${attempt}`)
          return attempt < 3 ? new Refused({ why: "busy" }) : Effect.succeed(attempt)
        })
      }).pipe(Activity.retry({ times: 5 })),
    ends: 3,
    log: ["try 1", "try 2", "try 3"]
  },
  "an activity that fails in every attempt fails with its last error": {
    code: ({ log }) =>
      Activity.make({
        name: "charge",
        error: Refused,
        execute: Effect.suspend(() => new Refused({ why: `try ${log.push("try")}` }))
      }).pipe(Activity.retry({ times: 2 }), Effect.zipLeft(said(log, "ship"))),
    ends: { failed: "try 3" },
    log: ["try", "try", "try"]
  },
  "an activity that interrupts itself is tried again, and then is a defect": {
    code: ({ log }) =>
      Activity.make({
        name: "stop",
        execute: Effect.zipRight(say(log, "try"), Effect.interrupt),
        interruptRetryPolicy: Schedule.recurs(2)
      }),
    ends: { died: 'Activity "stop" interrupted and retry attempts exhausted' },
    log: ["try", "try", "try"]
  },
  "an activity that sleeps runs again when its sleep is over, and its date stays a date": {
    code: ({ log }) =>
      Effect.gen(function* () {
        const at = yield* Activity.make({
          name: "sleep",
          success: Schema.DateTimeUtc,
          execute: Effect.zipRight(say(log, "try"), Effect.zipRight(nap("inside"), DateTime.now))
        })
        yield* nap("after")
        return DateTime.isUtc(at)
      }),
    ends: true,
    log: ["try", "try"]
  },
  "an activity that waits for a deferred is not tried again before the deferred is completed": {
    code: ({ log }) =>
      Activity.make({
        name: "wait",
        success: Schema.String,
        execute: Effect.zipRight(say(log, "try"), DurableDeferred.await(Approval))
      }),
    act: approve,
    ends: "ada",
    log: ["try", "approved", "try"]
  },
  "a defect of an activity is caught, and the next activity runs": {
    code: ({ log }) =>
      Activity.make({ name: "break", success: Schema.String, execute: Effect.die("boom") }).pipe(
        Effect.catchAllCause(() => said(log, "report"))
      ),
    ends: "report 1",
    log: ["report"]
  },
  "a defect that JSON cannot express is a defect with its message": {
    code: () =>
      Activity.make({ name: "break", execute: Effect.die(Object.assign(new Error("too large"), { bytes: 1n })) }),
    ends: { died: "too large" },
    log: []
  },
  "a typed failure is the result, and compensates the last step first": {
    code: ({ log }) =>
      Effect.gen(function* () {
        yield* Order.withCompensation(said(log, "reserve"), () => say(log, "release"))
        yield* Order.withCompensation(said(log, "charge"), () => say(log, "refund"))
        yield* nap("cool off")
        return yield* new Refused({ why: "no stock" })
      }),
    ends: { failed: "no stock" },
    log: ["reserve", "charge", "refund", "release"]
  },
  "a failure beside a wait is the result": {
    notOnEffect: "forgets the failure and waits",
    code: () =>
      Effect.all(
        [
          DurableDeferred.await(Approval),
          Activity.make({ name: "ship", error: Refused, execute: new Refused({ why: "no stock" }) })
        ],
        { concurrency: 2 }
      ),
    ends: { failed: "no stock" },
    log: []
  },
  "an interruption ends an execution that waits, and compensates it": {
    code: ({ log }) =>
      Effect.gen(function* () {
        yield* Order.withCompensation(said(log, "charge"), () => say(log, "refund"))
        return yield* DurableDeferred.await(Approval)
      }),
    act: ({ id }) => Order.interrupt(id),
    ends: "interrupted",
    log: ["charge", "refund"]
  },
  "a completion and a resume after the end change nothing": {
    code: () => DurableDeferred.await(Approval),
    act: ({ ended, id }) =>
      Order.interrupt(id).pipe(
        Effect.zipRight(ended),
        Effect.zipRight(complete(Approval, id, "too late")),
        Effect.zipRight(Order.resume(id))
      ),
    ends: "interrupted",
    log: []
  },
  "a suspension runs finalizers of the run, but no catch and no compensation": {
    code: ({ log }) =>
      Effect.gen(function* () {
        yield* Effect.addFinalizer(() => say(log, "finalizer"))
        yield* Order.withCompensation(said(log, "charge"), () => say(log, "refund"))
        return yield* DurableDeferred.await(Approval).pipe(
          Effect.catchAllCause(() => Effect.as(say(log, "caught"), "caught")),
          Effect.ensuring(say(log, "ensuring"))
        )
      }),
    act: approve,
    ends: "ada",
    log: ["charge", "ensuring", "finalizer", "approved", "ensuring", "finalizer"]
  },
  "a finalizer of the workflow runs once, at its end": {
    code: ({ log }) =>
      Effect.zipRight(
        Workflow.addFinalizer(() => say(log, "finalized")),
        DurableDeferred.await(Approval)
      ),
    act: approve,
    ends: "ada",
    log: ["approved", "finalized"]
  },
  "an execution that suspends on failure goes on when it is resumed": {
    workflow: Held,
    code: ({ log }) =>
      Effect.gen(function* () {
        yield* said(log, "charge")
        return log.includes("fixed") ? yield* said(log, "ship") : yield* new Refused({ why: "no stock" })
      }),
    act: ({ id, log }) => Effect.zipRight(say(log, "fixed"), Held.resume(id)),
    ends: "ship 3",
    log: ["charge", "fixed", "ship"]
  },
  "an execution that suspends on failure suspends on a defect, and its finalizers see it": {
    notOnEffect: "does not end an execution that is suspended by a failure",
    workflow: Held,
    code: ({ log }) =>
      Effect.gen(function* () {
        const { cause, suspended } = yield* Effect.map(instance, (held) => ({
          cause: () => String(held.cause && Cause.squash(held.cause)),
          suspended: () => held.suspended
        }))
        yield* Effect.addFinalizer(() =>
          Effect.sync(() => void (log.length === 0 && log.push(`suspended ${suspended()}: ${cause()}`)))
        )
        yield* Activity.make({ name: "break", execute: Effect.die("boom") })
      }),
    act: ({ id }) => Held.interrupt(id),
    ends: "interrupted",
    log: ["suspended true: boom"]
  },
  "children run side by side, and their failure is that of the call": {
    code: () =>
      Effect.forEach(["a", "b", "broken"], (id) => Effect.either(Part.execute({ id })), {
        concurrency: "unbounded"
      }).pipe(Effect.map((ends) => ends.map((end) => (end._tag === "Right" ? end.right : end.left.why)))),
    ends: ["part a", "part b", "in transit"],
    log: []
  },
  "children run side by side inside an activity": {
    code: ({ log }) => inActivity(parts(["c", "d", "e"], "unbounded")).pipe(Effect.zipLeft(said(log, "ship"))),
    ends: ["part c", "part d", "part e"],
    log: ["ship"]
  },
  "five children run inside an activity, two at a time": {
    code: ({ log }) => inActivity(parts(["f", "g", "h", "i", "j"], 2)).pipe(Effect.zipLeft(said(log, "ship"))),
    ends: ["part f", "part g", "part h", "part i", "part j"],
    log: ["ship"]
  },
  "a child waits for a deferred, and its parent is suspended with it": {
    code: ({ log }) =>
      Effect.gen(function* () {
        const parent = yield* instance
        yield* Effect.addFinalizer(() => Effect.suspend(() => say(log, `suspended ${parent.suspended}`)))
        return yield* Part.execute({ id: "signed k" })
      }),
    act: ({ log }) =>
      Effect.flatMap(Part.executionId({ id: "signed k" }), (id) =>
        Effect.zipRight(say(log, "approved"), complete(Approval, id, "ada", Part))
      ),
    ends: "part signed k for ada",
    log: ["suspended true", "approved", "suspended false"]
  },
  "children that end while an activity cleans up wake their parent": {
    notOnEffect: "does not wake a run that is active",
    code: ({ gate, log }) =>
      inActivity(
        parts(["signed l", "signed m"], "unbounded").pipe(
          Effect.ensuring(
            Effect.suspend(() =>
              log.includes("cleanup") ? Effect.void : Effect.zipRight(say(log, "cleanup"), Deferred.await(gate))
            )
          )
        )
      ),
    from: "cleanup",
    act: ({ gate, until }) =>
      Effect.gen(function* () {
        const context = yield* Effect.context<WorkflowEngine.WorkflowEngine>()
        for (const part of ["signed l", "signed m"]) {
          const id = yield* Part.executionId({ id: part })
          yield* complete(Approval, id, "ada", Part)
          yield* until(Effect.map(Part.poll(id), (result) => result?._tag === "Complete").pipe(Effect.provide(context)))
        }
        yield* Deferred.succeed(gate, undefined)
      }),
    ends: ["part signed l for ada", "part signed m for ada"],
    log: ["cleanup"]
  },
  "a deferred takes the result of an effect, once": {
    code: ({ log }) =>
      Effect.gen(function* () {
        const first = yield* DurableDeferred.into(said(log, "sign"), Approval)
        yield* nap("a while")
        return [first, yield* DurableDeferred.await(Approval)]
      }),
    ends: ["sign 1", "sign 1"],
    log: ["sign"]
  },
  "a deferred takes the failure of an effect that waited before it failed": {
    code: () =>
      Effect.gen(function* () {
        const failing = Effect.zipRight(nap("think"), new Refused({ why: "no stock" }))
        const first = yield* Effect.flip(DurableDeferred.into(failing, Verdict))
        yield* nap("a while")
        const second = yield* Effect.flip(DurableDeferred.await(Verdict))
        return [first.why, second.why]
      }).pipe(Effect.catchAll(() => Effect.succeed("did not fail"))),
    ends: ["no stock", "no stock"],
    log: []
  },
  "a deferred stays open if its effect is interrupted": {
    notOnEffect: "records the interruption",
    code: ({ log }) =>
      Effect.gen(function* () {
        const first = yield* Effect.raceFirst(DurableDeferred.into(Effect.never, Second), said(log, "fast"))
        return [first, yield* DurableDeferred.await(Second)]
      }),
    act: ({ id }) => complete(Second, id, "b"),
    ends: ["fast 1", "b"],
    log: ["fast"]
  },
  "a durable queue passes work to a worker and its result back": {
    notOnEffect: "loses a deferred that is completed while the execution is suspending",
    code: () => DurableQueue.process(Labels, { id: "p" }) as Code,
    ends: "label of p",
    log: []
  },
  "the failure of a durable queue's worker is the failure of the call": {
    notOnEffect: "loses a deferred that is completed while the execution is suspending",
    code: () => DurableQueue.process(Labels, { id: "broken" }) as Code,
    ends: { failed: "no paper" },
    log: []
  }
}
