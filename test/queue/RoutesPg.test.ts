import { expect, it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { Database } from "../../src/database/Database.js"
import { type Decide, Routes } from "../../src/queue/settings/Routes.js"
import * as RoutesPg from "../../src/queue/settings/RoutesPg.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"

/** The routes as another process sees them. */
const process = Effect.map(Layer.build(Layer.fresh(RoutesPg.layer)), (built) => Context.get(built, Routes))

const house = Layer.provideMerge(TestDatabase.layer, SteppableClock.layer)

const asked = (routes: typeof Routes.Service) => Effect.map(routes.current, (queueOf: Decide) => queueOf("gh.merge"))

it.scopedLive("a process sees its own declarations at once and another's a second later", () =>
  Effect.gen(function* () {
    const ours = yield* process
    const theirs = yield* process
    expect(yield* asked(theirs)).toBeUndefined()
    yield* ours.register({ "gh.": "github" })
    expect(yield* asked(ours)).toBe("github")
    yield* SteppableClock.advance("1 second")
    expect(yield* asked(theirs)).toBe("github")
  }).pipe(Effect.provide(house))
)

it.scopedLive("routes are read once for concurrent callers", () =>
  Effect.gen(function* () {
    const routes = yield* process
    const { sql } = yield* Database
    yield* routes.register({ "gh.": "github" })
    const answers = yield* Effect.all(
      Array.from({ length: 100 }, () => asked(routes)),
      { concurrency: "unbounded" }
    )
    expect(new Set(answers)).toEqual(new Set(["github"]))
    // Callers that hold every pooled connection in transactions do not wait for a free one.
    yield* SteppableClock.advance("1 minute")
    const { transaction } = yield* Database
    const inside = transaction(Effect.zipRight(sql`select pg_sleep(0.05)`, asked(routes)))
    const held = yield* Effect.all(
      Array.from({ length: 10 }, () => inside),
      { concurrency: "unbounded" }
    )
    expect(new Set(held)).toEqual(new Set(["github"]))
  }).pipe(Effect.provide(house))
)

it.scopedLive("cached routes apply while the table cannot be read", () =>
  Effect.gen(function* () {
    const routes = yield* process
    const { sql } = yield* Database
    yield* routes.register({ "gh.": "github" })
    expect(yield* asked(routes)).toBe("github")
    yield* sql`alter table nightshift.route rename to lost`
    yield* SteppableClock.advance("1 minute")
    expect(yield* asked(routes)).toBe("github")
    const fresh = yield* process
    expect(yield* Effect.flip(asked(fresh))).toMatchObject({ _tag: "DatabaseFault" })
  }).pipe(Effect.provide(house))
)
