import { Activity, DurableDeferred } from "@effect/workflow"
import { Deferred, Effect, Schema } from "effect"
import {
  Approval,
  approve,
  type Code,
  complete,
  nap,
  Refused,
  type Scenarios,
  Second,
  said,
  say
} from "./EffectScenario.js"

// Races between activities, deferreds and clocks.

type Member = Effect.Effect<string, Refused, never>

const race = (...effects: readonly [unknown, ...ReadonlyArray<unknown>]) =>
  DurableDeferred.raceAll({
    name: "race",
    success: Schema.String,
    error: Refused,
    effects: effects as unknown as readonly [Member, ...ReadonlyArray<Member>]
  }) as Code

/** An activity that never ends and says when it starts and when it is interrupted. */
const hangs = (log: Array<string>, name = "hangs") =>
  Activity.make({
    name,
    success: Schema.String,
    execute: Effect.zipRight(
      say(log, name),
      Effect.onInterrupt(Effect.never, () => say(log, `${name}: interrupted`))
    )
  })

/** An activity that ends when the scenario opens the gate. */
const gated = (log: Array<string>, gate: Deferred.Deferred<void>) =>
  Activity.make({
    name: "gated",
    success: Schema.String,
    execute: Effect.as(Effect.zipRight(say(log, "gated"), Deferred.await(gate)), "gated")
  })

/** An activity that sleeps durably. */
const sleeps = (name: string, duration: "150 millis" | "1 hour" | "2 hours") =>
  Activity.make({ name, success: Schema.String, execute: Effect.as(nap(name, duration), name) })

const open = ({ gate }: { readonly gate: Deferred.Deferred<void> }) => Effect.asVoid(Deferred.succeed(gate, undefined))

export const races: Scenarios = {
  "a race has one winner in every run, and the others are interrupted": {
    code: ({ log }) =>
      Effect.gen(function* () {
        const winner = yield* Activity.raceAll("race", [hangs(log), said(log, "fast")])
        yield* nap("a while")
        return winner
      }),
    ends: "fast 2",
    log: ["hangs", "fast", "hangs: interrupted"]
  },
  "a failure in a race is ignored while another member can win": {
    code: ({ gate, log }) =>
      Activity.raceAll("race", [
        Activity.make({ name: "fails", success: Schema.String, error: Refused, execute: new Refused({ why: "busy" }) }),
        gated(log, gate)
      ]),
    from: "gated",
    act: open,
    ends: "gated",
    log: ["gated"]
  },
  "activities that sleep race, and a replay keeps the winner": {
    code: () =>
      Effect.gen(function* () {
        const racers = [sleeps("slow", "2 hours"), sleeps("medium", "1 hour"), sleeps("fast", "150 millis")] as const
        const winner = yield* Activity.raceAll("race", racers)
        return [winner, yield* DurableDeferred.await(Approval)]
      }),
    act: ({ id }) => complete(Approval, id, "ada"),
    ends: ["fast", "ada"],
    log: []
  },
  "a deferred wins a race while an activity runs": {
    notOnEffect: "does not wake a run that is active",
    code: ({ log }) => race(DurableDeferred.await(Approval), hangs(log)),
    from: "hangs",
    act: approve,
    ends: "ada",
    log: ["hangs", "approved", "hangs: interrupted"]
  },
  "an activity wins a race while the deferred stays open": {
    code: ({ gate, log }) => race(DurableDeferred.await(Approval), gated(log, gate)),
    from: "gated",
    act: open,
    ends: "gated",
    log: ["gated"]
  },
  "a deferred that lost a race and is completed later changes nothing": {
    code: ({ log }) =>
      Effect.gen(function* () {
        const winner = yield* race(DurableDeferred.await(Approval), said(log, "fast"))
        return [winner, yield* DurableDeferred.await(Second)]
      }),
    act: (acting) => Effect.zipRight(approve(acting), complete(Second, acting.id, "b")),
    ends: ["fast 1", "b"],
    log: ["fast", "approved"]
  },
  "a clock wins a race while an activity runs": {
    notOnEffect: "does not wake a run that is active",
    code: ({ log }) => race(Effect.as(nap("patience"), "too late"), hangs(log)),
    ends: "too late",
    log: ["hangs", "hangs: interrupted"]
  },
  "an activity wins a race against one that sleeps": {
    code: ({ gate, log }) => Activity.raceAll("race", [sleeps("slow", "1 hour"), gated(log, gate)]),
    from: "gated",
    act: open,
    ends: "gated",
    log: ["gated"]
  },
  "a member of a race goes on after its deferred is completed": {
    notOnEffect: "does not wake a run that is active",
    code: ({ log }) =>
      race(
        Effect.map(DurableDeferred.await(Approval), (by) => `by ${by}`),
        hangs(log)
      ),
    from: "hangs",
    act: approve,
    ends: "by ada",
    log: ["hangs", "approved", "hangs: interrupted"]
  },
  "a member of a race may complete another deferred": {
    notOnEffect: "does not wake a run that is active",
    code: ({ log }) => race(DurableDeferred.into(DurableDeferred.await(Approval), Second), hangs(log)),
    from: "hangs",
    act: approve,
    ends: "ada",
    log: ["hangs", "approved", "hangs: interrupted"]
  },
  "a member of a race may run an activity before it waits": {
    notOnEffect: "does not wake a run that is active",
    code: ({ log }) =>
      race(
        Effect.zipWith(said(log, "charge"), DurableDeferred.await(Approval), (charged, by) => `${charged} by ${by}`),
        hangs(log)
      ),
    from: "hangs",
    act: approve,
    ends: "charge 1 by ada",
    log: ["charge", "hangs", "approved", "hangs: interrupted"]
  },
  "a member of a race may wait twice": {
    notOnEffect: "does not wake a run that is active",
    code: ({ log }) =>
      race(
        Effect.gen(function* () {
          const first = yield* DurableDeferred.await(Approval)
          yield* say(log, "first")
          return `${first} and ${yield* DurableDeferred.await(Second)}`
        }),
        hangs(log)
      ),
    from: "hangs",
    act: (acting) =>
      approve(acting).pipe(
        Effect.zipRight(acting.until(Effect.sync(() => acting.log.includes("first")))),
        Effect.zipRight(complete(Second, acting.id, "grace"))
      ),
    ends: "ada and grace",
    log: ["hangs", "approved", "first", "hangs: interrupted"]
  },
  "a race whose members all wait suspends, and resumes with the winner": {
    code: () => race(DurableDeferred.await(Approval), DurableDeferred.await(Second)),
    act: ({ id }) => complete(Second, id, "b"),
    ends: "b",
    log: []
  },
  "a completion that arrives while a race suspends is not lost": {
    notOnEffect: "loses a deferred that is completed while the execution is suspending",
    code: ({ gate, log }) =>
      race(DurableDeferred.await(Approval), DurableDeferred.await(Second)).pipe(
        Effect.ensuring(Effect.zipRight(say(log, "unwinding"), Deferred.await(gate)))
      ),
    from: "unwinding",
    act: ({ gate, id }) => Effect.zipRight(complete(Second, id, "b"), open({ gate })),
    ends: "b",
    log: ["unwinding", "unwinding"]
  }
}
