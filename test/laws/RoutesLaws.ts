import { expect } from "@effect/vitest"
import { Effect, Either } from "effect"
import { computed } from "../../src/core/StoredJob.js"
import { End } from "../../src/queue/AttemptEnd.js"
import type { Law, Line } from "./Line.js"

/** The queue of a job of this kind that names none. */
const queueOf = (line: Line, kind: string) =>
  Effect.gen(function* () {
    const id = yield* line.put({ kind, queue: "default", routed: true })
    return (yield* line.search.get(id)).queue
  })

export const routesLaws = (law: Law): void => {
  law("the longest prefix of a kind decides, and without a match the job keeps its default queue", (line) =>
    Effect.gen(function* () {
      const { name } = line
      yield* line.routes.register({
        [`${name}.gh`]: "short",
        [`${name}.gh.pull.`]: "long",
        [`${name}.gh.`]: "middle"
      })
      expect(yield* queueOf(line, `${name}.gh.pull.merge`)).toBe("long")
      expect(yield* queueOf(line, `${name}.gh.issue`)).toBe("middle")
      expect(yield* queueOf(line, `${name}.ghost`)).toBe("short")
      expect(yield* queueOf(line, `${name}.g`)).toBe("default")
      expect(yield* queueOf(line, name)).toBe("default")
    })
  )

  law("a job that names its queue ignores the routes", (line) =>
    Effect.gen(function* () {
      yield* line.routes.register({ [`${line.name}.`]: "elsewhere" })
      const id = yield* line.put({ kind: `${line.name}.a` })
      expect((yield* line.search.get(id)).queue).toBe(line.name)
    })
  )

  law("one request may mix routed and named queues", (line) =>
    Effect.gen(function* () {
      yield* line.routes.register({ [`${line.name}.`]: "far" })
      const answers = yield* line.queue.enqueue([
        line.job({ kind: `${line.name}.a`, routed: true }),
        line.job({ kind: `${line.name}.a` }),
        line.job({ kind: "other", routed: true })
      ])
      const queues = yield* Effect.forEach(answers, ({ id }) => Effect.map(line.search.get(id), ({ queue }) => queue))
      expect(queues).toEqual(["far", line.name, line.name])
    })
  )

  law("follow-ups that code computes follow the routes, with the death and later", (line) =>
    Effect.gen(function* () {
      const [kind, far] = [`${line.name}.dying`, `${line.name}-far`]
      const followUp = {
        kind: `${line.name}.alert`,
        version: 1,
        queue: "default",
        payload: 1,
        attempts: 1,
        routed: true
      }
      yield* line.routes.register({ [`${line.name}.alert`]: far })
      for (const known of [followUp, undefined]) {
        const dead = End.Dead({ reason: "rejected", counted: true, error: "no", followUp: known })
        yield* line.end(yield* line.run({ kind, onDead: computed }), dead)
      }
      yield* line.queue.makeFollowUps([kind], () => Either.right(followUp))
      expect((yield* line.all(far)).map((job) => job.kind)).toEqual([followUp.kind, followUp.kind])
    })
  )

  law("the latest declaration of a prefix wins, others stay, and null removes one", (line) =>
    Effect.gen(function* () {
      const { name } = line
      yield* line.routes.register({ [`${name}.b`]: "first", [`${name}.a`]: "kept" })
      yield* line.routes.register({ [`${name}.b`]: "second" })
      yield* line.routes.register({})
      const own = Effect.map(line.routes.all, (all) => all.filter(({ prefix }) => prefix.startsWith(`${name}.`)))
      expect(yield* own).toEqual([
        { prefix: `${name}.a`, queue: "kept" },
        { prefix: `${name}.b`, queue: "second" }
      ])
      expect(yield* queueOf(line, `${name}.b`)).toBe("second")
      yield* line.routes.register({ [`${name}.b`]: null, [`${name}.never`]: null })
      expect(yield* own).toEqual([{ prefix: `${name}.a`, queue: "kept" }])
      expect(yield* queueOf(line, `${name}.b`)).toBe("default")
    })
  )

  law("an invalid route is refused with the whole declaration", (line) =>
    Effect.gen(function* () {
      const fine = `${line.name}.fine`
      for (const bad of [{ "": "mail" }, { "a\u0000": "mail" }, { ["x".repeat(129)]: "mail" }, { bad: "no queue" }]) {
        const error = yield* Effect.flip(line.routes.register({ [fine]: "mail", ...bad }))
        expect(error).toMatchObject({ _tag: "InvalidRoute" })
      }
      expect((yield* line.routes.all).map(({ prefix }) => prefix)).not.toContain(fine)
    })
  )
}
