import { expect, it } from "@effect/vitest"
import { Duration, Effect, type Layer, Schema } from "effect"
import { expectTypeOf } from "vitest"
import * as Outcome from "../../src/core/Outcome.js"
import * as Handler from "../../src/handlers/Handler.js"
import type * as Nightshift from "../../src/index.js"
import * as Job from "../../src/queue/Job.js"
import { type TestServices, TestShift } from "../../src/testing/effect.js"

const Mail = Job.make("mail", { payload: Schema.Struct({ to: Schema.String }), timeout: "30s" })
const MailHandler = Handler.make(Mail, ({ to }) =>
  to === "" ? Effect.succeed(Outcome.dead("no address")) : Effect.succeed(7)
)

it.effect("reports whether an enqueue stored a job or found one", () =>
  Effect.gen(function* () {
    const first = yield* Mail.enqueue({ to: "Ada" }, { dedupe: "ada", delay: "1h30m" })
    const second = yield* Mail.enqueue({ to: "Ada" }, { dedupe: "ada" })
    expect([first.outcome, second.outcome]).toEqual(["enqueued", "deduplicated"])
    expect(second.id).toBe(first.id)
    const shift = yield* TestShift
    expect((yield* shift.job(first.id)).runAt).toBe(90 * 60_000)
  }).pipe(Effect.provide(TestShift.layer({ handlers: [MailHandler] })))
)

it.effect("stores many with a dedupe key and a key of each", () =>
  Effect.gen(function* () {
    const stored = yield* Mail.enqueueMany([{ to: "Ada" }, { to: "Bob" }, { to: "Ada" }], {
      dedupe: ({ to }) => ({ key: to, scope: "retained", window: "5m" }),
      key: ({ to }) => `customer:${to}`
    })
    expect(stored.map(({ outcome }) => outcome)).toEqual(["enqueued", "enqueued", "deduplicated"])
    const shift = yield* TestShift
    expect((yield* shift.jobs).map(({ key }) => key)).toEqual(["customer:Ada", "customer:Bob"])
  }).pipe(Effect.provide(TestShift.layer({ handlers: [MailHandler] })))
)

it.effect("refuses an invalid duration, with the field", () =>
  Effect.gen(function* () {
    const delay = yield* Effect.flip(Mail.enqueue({ to: "Ada" }, { delay: "soon" as never }))
    expect(delay.message).toBe('delay must be a duration like 90s, 30m, 1h30m or 7d, or milliseconds, got "soon".')
    const dedupe = { key: "ada", scope: "retained", window: "later" as never } as const
    expect((yield* Effect.flip(Mail.enqueue({ to: "Ada" }, { dedupe }))).message).toMatch(/^dedupe\.window must be /)
  }).pipe(Effect.provide(TestShift.layer({ handlers: [MailHandler] })))
)

it.scoped("keeps what a handler says of its code when it opens its resources", () =>
  Effect.gen(function* () {
    const shared = {
      ...Handler.scoped(
        Mail,
        Effect.succeed(() => Effect.void)
      ),
      source: "async (payload) => {}"
    }
    expect(yield* Handler.opened(shared)).toMatchObject({ kind: Mail, source: shared.source })
    expect(yield* Handler.opened(shared)).not.toHaveProperty("open")
  })
)

it("takes durations in one way everywhere", () => {
  expect(Mail.timeout).toEqual(Duration.seconds(30))
  expect(Outcome.retry("no", "5m")).toEqual({ _tag: "Retry", error: "no", after: 300_000 })
  expect(Outcome.snooze(1_000)).toEqual({ _tag: "Snooze", after: 1_000 })
  expect(Outcome.throttled({ after: "30 seconds" }).after).toBe(30_000)
})

it("keeps types short: of a handler's result, and of what a test shift provides", () => {
  type Result = typeof MailHandler extends Handler.Handler<never, infer A> ? A : never
  expectTypeOf<Result>().toEqualTypeOf<number>()
  const layer: Layer.Layer<TestServices> = TestShift.layer({ handlers: [MailHandler] })
  expectTypeOf(layer).not.toBeAny()
})

it("exports every service that a program gets", () => {
  type Exported = {
    [Name in keyof typeof Nightshift]: (typeof Nightshift)[Name] extends {
      readonly Service: unknown
      readonly Identifier: infer Id
    }
      ? Id
      : never
  }[keyof typeof Nightshift]
  expectTypeOf<
    Exclude<Nightshift.Nightshift.Services, Exported | Nightshift.SqlClient.SqlClient | Nightshift.PgClient>
  >().toBeNever()
})
