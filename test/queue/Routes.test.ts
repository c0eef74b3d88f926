import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Effect, Either, Layer, Schema } from "effect"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import * as RouteConfig from "../../src/queue/settings/RouteConfig.js"
import { decide } from "../../src/queue/settings/Routes.js"
import { TestShift } from "../../src/testing/effect.js"

const open = { payload: Schema.Struct({}) }

describe("routes", () => {
  it("match by whole prefix, not by words", () => {
    const queueOf = decide([
      { prefix: "gh", queue: "a" },
      { prefix: "gh.pull", queue: "b" }
    ])
    expect(["gh.pulls", "gh.pul", "ghx", "g", ""].map(queueOf)).toEqual(["b", "a", "a", undefined, undefined])
  })

  it.effect("decide for a kind in code without a queue, and a pod serves the resulting queue", () => {
    const Merge = Job.make("gh.merge", open)
    const Mail = Job.make("gh.mail", { ...open, queue: "mail" })
    const Other = Job.make("other", open)
    const handlers = [Merge, Mail, Other].map((kind) => Handler.make(kind, (_, job) => Effect.succeed(job.queue)))
    return Effect.gen(function* () {
      const shift = yield* TestShift
      const ids = [yield* Merge.enqueue({}), yield* Mail.enqueue({}), yield* Other.enqueue({})]
      const asked = yield* Merge.enqueue({}, { queue: "mail" })
      yield* shift.settle
      const results = yield* Effect.forEach([...ids, asked], ({ id }) =>
        Effect.map(shift.job(id), ({ result }) => result)
      )
      expect(results).toEqual(["github", "mail", "default", "mail"])
    }).pipe(Effect.provide(TestShift.layer({ handlers, routes: { "gh.": "github" } })))
  })
})

describe("NIGHTSHIFT_ROUTES", () => {
  const read = (text: string) =>
    RouteConfig.declared.pipe(
      Effect.either,
      Effect.provide(Layer.setConfigProvider(ConfigProvider.fromMap(new Map([["NIGHTSHIFT_ROUTES", text]])))),
      Effect.map(Either.mapLeft(String))
    )

  it.effect("sets a queue by prefix, and an empty value removes a route", () =>
    Effect.gen(function* () {
      expect(yield* read("gh.=github, slack. = slack ,a=b=c,old.=")).toEqual(
        Either.right({ "gh.": "github", "slack.": "slack", "a=b": "c", "old.": null })
      )
      expect(yield* read("")).toEqual(Either.right({}))
    })
  )

  it.effect("is refused with the reason", () =>
    Effect.gen(function* () {
      for (const [text, why] of [
        ["gh.", /got "gh\."/],
        ["=github", /prefix has 1 to 128/],
        ["gh.=git hub", /is not a queue name/],
        ["a=b,a=c", /got "a" twice/]
      ] as const) {
        expect(Either.getOrElse(yield* read(text), String)).toMatch(why)
      }
    })
  )
})
