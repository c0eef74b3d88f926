import { randomBytes } from "node:crypto"
import { expect, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { seal } from "../../src/codec/index.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { TestShift } from "../../src/testing/effect.js"

const Report = Job.make("report", { payload: Schema.Struct({ patient: Schema.String }) })

const inner = seal({ keys: [{ id: "k1", key: randomBytes(32) }] })
const sealed: Array<string> = []
/** Keeps what it seals. */
const codec = {
  ...inner,
  seal: (json: string) => {
    sealed.push(json)
    return inner.seal(json)
  }
}

it.effect("the Effect form seals what it stores, on virtual time", () =>
  Effect.gen(function* () {
    const shift = yield* TestShift
    const { id } = yield* Report.enqueue({ patient: "Ada" }, { delay: "1 day" })
    yield* shift.advance("1 day")
    expect(sealed).toEqual(['{"patient":"Ada"}', '"report of Ada"'])
    expect(yield* Effect.flatMap(JobSearch, (search) => search.get(id))).toMatchObject({
      state: "done",
      payload: { patient: "Ada" },
      result: "report of Ada"
    })
  }).pipe(
    Effect.provide(
      TestShift.layer({
        handlers: [Handler.make(Report, ({ patient }) => Effect.succeed(`report of ${patient}`))],
        codec
      })
    )
  )
)
