import { describe, expect, type Vitest, layer as withLayer } from "@effect/vitest"
import type { Layer } from "effect"
import { Duration, Effect, Fiber, Option, Redacted } from "effect"
import { Audit } from "../../src/access/Audit.js"
import { Idempotency } from "../../src/access/Idempotency.js"
import type { SavedViews } from "../../src/access/SavedViews.js"
import { Sessions } from "../../src/access/Sessions.js"
import type { Advance } from "./Line.js"
import { savedViewsLaws } from "./SavedViewsLaws.js"

type Ports = Audit | Sessions | Idempotency | SavedViews
type Law = (title: string, story: Effect.Effect<void, unknown, Ports>) => void

let opened = 0
/** A name that no other law uses. */
const fresh = () => {
  opened += 1
  return `law-${opened}`
}

const auditLaws = (law: Law, advance: Advance) => {
  const page = (filter: Parameters<(typeof Audit.Service)["list"]>[0], limit = 100, cursor?: string) =>
    Effect.flatMap(Audit, ({ list }) => list(filter, { limit, cursor }))

  law(
    "an audit entry is listed whole, with its time",
    Effect.gen(function* () {
      const { record } = yield* Audit
      const who = fresh()
      yield* record({
        who,
        act: "queue.change",
        target: "mail",
        reason: "night",
        before: { paused: false },
        after: [1]
      })
      yield* advance("1 second")
      yield* record({ who, act: "job.cancel", target: "x" })
      const { entries, next } = yield* page({ who })
      expect(next).toBeUndefined()
      expect(entries).toMatchObject([
        { act: "job.cancel", reason: undefined, before: undefined, after: undefined },
        { who, act: "queue.change", target: "mail", reason: "night", before: { paused: false }, after: [1] }
      ])
      expect((entries[0]?.at ?? 0) - (entries[1]?.at ?? 0)).toBe(1_000)
    })
  )

  law(
    "entries are found by author, action or its prefix, target and time",
    Effect.gen(function* () {
      const { record } = yield* Audit
      const [who, target] = [fresh(), fresh()]
      const targets = (filter: object) =>
        Effect.map(page({ who, ...filter }), ({ entries }) => entries.map((entry) => entry.target))
      yield* record({ who, act: "job.cancel", target })
      yield* advance("1 minute")
      yield* record({ who, act: "jobs.bulk", target: "b" })
      yield* record({ who, act: "job", target: "c" })
      const [{ at } = { at: 0 }] = (yield* page({ target })).entries
      expect(yield* targets({ act: "job" })).toEqual(["c", target])
      expect(yield* targets({ act: "job.cancel" })).toEqual([target])
      expect(yield* targets({ act: "job_cancel" })).toEqual([])
      expect(yield* targets({ target: "b" })).toEqual(["b"])
      expect(yield* targets({ since: at + 1 })).toEqual(["c", "b"])
      expect(yield* targets({ until: at + 1 })).toEqual([target])
      expect(yield* targets({ who: "nobody" })).toEqual([])
    })
  )

  law(
    "pages run from newest to oldest, and an invalid cursor is refused",
    Effect.gen(function* () {
      const { list, record } = yield* Audit
      const who = fresh()
      for (const target of ["1", "2", "3"]) yield* record({ who, act: "a", target })
      const first = yield* page({ who }, 2)
      const second = yield* page({ who }, 2, first.next)
      expect([first, second].map(({ entries }) => entries.map(({ target }) => target))).toEqual([["3", "2"], ["1"]])
      expect(second.next).toBeUndefined()
      expect(yield* Effect.flip(list({}, { limit: 1, cursor: "x" }))).toMatchObject({ _tag: "BadCursor" })
    })
  )

  law(
    "long text is cut, and text that cannot be stored is replaced",
    Effect.gen(function* () {
      const { record } = yield* Audit
      const who = fresh()
      const after = { text: "x".repeat(20_000), odd: "\u0000" }
      yield* record({ who, act: "a", target: "t\u0000", reason: "\ud800".repeat(2_000), before: "\ud800\u0000", after })
      const [entry] = (yield* page({ who })).entries
      expect(entry).toMatchObject({ target: "t\ufffd", reason: "\ufffd".repeat(1_000), before: "\ufffd\ufffd" })
      expect(entry?.after).toMatchObject({ beginning: expect.stringMatching(/^\{"text":"x+$/) })
    })
  )

  law(
    "purge deletes older entries, and returns their number",
    Effect.gen(function* () {
      const { purge, record } = yield* Audit
      const who = fresh()
      yield* advance("1 second")
      yield* purge(Duration.zero)
      yield* record({ who, act: "a", target: "old" })
      yield* record({ who, act: "a", target: "old" })
      yield* advance("2 hours")
      yield* record({ who, act: "a", target: "young" })
      expect(yield* purge(Duration.hours(1))).toBe(2)
      expect((yield* page({ who })).entries.map(({ target }) => target)).toEqual(["young"])
    })
  )
}

const sessionLaws = (law: Law, advance: Advance) => {
  const token = Redacted.make("sesame")
  const tokens = { admin: Option.some(token), viewer: Option.some(Redacted.make("peek")) }
  const hour = Duration.hours(1)

  law(
    "a secret opens its own session and no other",
    Effect.gen(function* () {
      const { begin, find } = yield* Sessions
      const admin = yield* begin("admin", token, hour)
      const viewer = yield* begin("viewer", Redacted.make("peek"), hour)
      expect(Redacted.value(admin.secret)).not.toBe(Redacted.value(viewer.secret))
      expect(yield* find(Redacted.value(admin.secret), tokens, hour)).toMatchObject({ value: { role: "admin" } })
      expect(yield* find(Redacted.value(viewer.secret), tokens, hour)).toMatchObject({ value: { role: "viewer" } })
      for (const secret of ["", "x", `${Redacted.value(admin.secret)} `]) {
        expect(yield* find(secret, tokens, hour)).toEqual(Option.none())
      }
    })
  )

  law(
    "using a session extends it, and an unused one expires",
    Effect.gen(function* () {
      const { begin, find } = yield* Sessions
      const { secret, until } = yield* begin("admin", token, hour)
      const look = find(Redacted.value(secret), tokens, hour)
      yield* advance("40 minutes")
      const extended = Option.getOrThrow(yield* look)
      expect(extended.until).toBe(until + 40 * 60_000)
      yield* advance("40 minutes")
      expect(Option.isSome(yield* look)).toBe(true)
      yield* advance("1 hour")
      expect(yield* look).toEqual(Option.none())
    })
  )

  law(
    "changing or removing a token ends its sessions",
    Effect.gen(function* () {
      const { begin, find } = yield* Sessions
      const secret = Redacted.value((yield* begin("admin", token, hour)).secret)
      const changed = { ...tokens, admin: Option.some(Redacted.make("sesame2")) }
      expect(yield* find(secret, changed, hour)).toEqual(Option.none())
      expect(yield* find(secret, { ...tokens, admin: Option.none() }, hour)).toEqual(Option.none())
      expect(Option.isSome(yield* find(secret, tokens, hour))).toBe(true)
    })
  )

  law(
    "an ended session stays ended, and purge deletes expired ones",
    Effect.gen(function* () {
      const { begin, end, find, purge } = yield* Sessions
      yield* advance("3 hours")
      yield* purge
      const first = Redacted.value((yield* begin("admin", token, hour)).secret)
      yield* end(first)
      expect(yield* find(first, tokens, hour)).toEqual(Option.none())
      yield* end(first)
      yield* begin("admin", token, hour)
      yield* begin("viewer", token, Duration.hours(3))
      yield* advance("2 hours")
      expect(yield* purge).toBe(1)
      expect(yield* purge).toBe(0)
    })
  )
}

const idempotencyLaws = (law: Law, advance: Advance) => {
  const remembered = Duration.hours(24)

  law(
    "a repeated key is not executed again and returns the first result",
    Effect.gen(function* () {
      const { once } = yield* Idempotency
      const request = { key: fresh(), content: "a", remembered }
      let done = 0
      const act = (firstSeen: number) =>
        Effect.sync(() => {
          done += 1
          return { number: done, firstSeen }
        })
      const first = yield* once(request, act)
      yield* advance("1 hour")
      expect(yield* once(request, act)).toEqual(first)
      expect(done).toBe(1)
      yield* once({ ...request, key: fresh() }, act)
      expect(done).toBe(2)
    })
  )

  law(
    "a key with different content is refused",
    Effect.gen(function* () {
      const { once } = yield* Idempotency
      const request = { key: fresh(), content: "a", remembered }
      yield* once(request, () => Effect.succeed(1))
      const refused = yield* Effect.flip(once({ ...request, content: "b" }, () => Effect.succeed(2)))
      expect(refused._tag).toBe("IdempotencyKeyReused")
      expect(yield* once(request, () => Effect.succeed(3))).toBe(1)
    })
  )

  law(
    "a failed request was not executed, and may be retried with the same key",
    Effect.gen(function* () {
      const { once } = yield* Idempotency
      const request = { key: fresh(), content: "a", remembered }
      expect(yield* Effect.flip(once(request, () => Effect.fail("no")))).toBe("no")
      expect(yield* once({ ...request, content: "b" }, () => Effect.succeed(2))).toBe(2)
    })
  )

  law(
    "two concurrent requests with one key execute once",
    Effect.gen(function* () {
      const { once } = yield* Idempotency
      const request = { key: fresh(), content: "a", remembered }
      let done = 0
      const act = () =>
        Effect.map(Effect.yieldNow(), () => {
          done += 1
          return done
        })
      const both = yield* Effect.all([once(request, act), once(request, act)], { concurrency: 2 }).pipe(Effect.fork)
      const [first, second] = yield* Fiber.join(both)
      expect([first, second, done]).toEqual([1, 1, 1])
    })
  )

  law(
    "a key can be reused after it expires, and purge deletes it",
    Effect.gen(function* () {
      const { once, purge } = yield* Idempotency
      yield* advance("1 second")
      yield* purge(Duration.zero)
      const request = { key: fresh(), content: "a", remembered }
      yield* once(request, () => Effect.succeed(1))
      yield* advance("25 hours")
      expect(yield* once({ ...request, content: "b" }, () => Effect.succeed(2))).toBe(2)
      expect(yield* once({ ...request, content: "b" }, () => Effect.succeed(3))).toBe(2)
      yield* advance("25 hours")
      expect(yield* purge(remembered)).toBe(1)
      expect(yield* purge(remembered)).toBe(0)
    })
  )
}

const chapters = { audit: auditLaws, sessions: sessionLaws, idempotency: idempotencyLaws, views: savedViewsLaws }

/** Laws of the audit, sessions and idempotency ports. All laws share the layer and its data. */
export const accessLaws = (
  name: string,
  layer: Layer.Layer<Ports>,
  options: { readonly clock: "test" | "live"; readonly advance: Advance }
): void =>
  withLayer(layer, { excludeTestServices: options.clock === "live" })(name, (it) => {
    const lawIn =
      (test: Vitest.Test<Ports>): Law =>
      (title, story) =>
        test(title, () => story)
    for (const [chapter, laws] of Object.entries(chapters)) {
      describe(chapter, () => laws(lawIn(it.effect), options.advance))
    }
  })
