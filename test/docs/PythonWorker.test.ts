import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, Schema } from "effect"
import * as Outcome from "../../src/core/Outcome.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as WorkerPool from "../../src/handlers/WorkerPool.js"
import * as Job from "../../src/queue/Job.js"
import { perform } from "../handlers/fixtures/Workshop.js"
import { root } from "../support/Nightshift.js"

const python = ["/usr/bin/python3", "/usr/local/bin/python3", "/opt/homebrew/bin/python3"].find(
  (path) => spawnSync(path, ["--version"]).status === 0
)
const script = join(root, "docs", "recipes", "shout_worker.py")

const Shout = Job.make("shout", {
  payload: Schema.Struct({ text: Schema.Unknown, busy: Schema.Unknown }).pipe(Schema.partial)
})

describe("the worker of the recipe", () => {
  // Other tests cover the protocol with children in JavaScript; this one runs the page's Python if the machine has it.
  if (python === undefined) it("needs Python, which this machine does not have", () => expect(python).toBeUndefined())
  else {
    it.scopedLive("does what its page says", () =>
      Effect.gen(function* () {
        const handler = yield* Handler.opened(WorkerPool.make(Shout, { command: [python, script] }))
        expect(yield* perform(handler, { text: "größe" })).toEqual(Outcome.done({ shouted: "GRÖSSE" }))
        expect(yield* perform(handler, {})).toEqual(Outcome.dead("there is no text to shout"))
        expect(yield* perform(handler, { text: "", busy: true })).toEqual(
          Outcome.throttled({ after: Duration.seconds(30) })
        )
        expect(yield* perform(handler, { text: 7 })).toMatchObject({
          _tag: "Retry",
          error: expect.stringMatching(/^AttributeError: /)
        })
      })
    )
  }
})
