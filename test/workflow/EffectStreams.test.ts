import { assert, describe, it } from "@effect/vitest"
import { Activity } from "@effect/workflow"
import { Chunk, Effect, Schema, Stream } from "effect"
import { WorkflowStream } from "../../src/workflow/index.js"
import { crash, drain, on, Refused, settle, show, start } from "./EffectOrder.js"

const Written = Schema.Struct({ generation: Schema.Int, count: Schema.Int, bytes: Schema.Int })

const activity = (chunks: Stream.Stream<unknown, Refused>) =>
  Activity.make({ name: "tokens", success: Written, error: Refused, execute: WorkflowStream.write(chunks) })

const read = (id: string, options?: WorkflowStream.ReadOptions) =>
  Stream.runCollect(WorkflowStream.read(id, "tokens", options)).pipe(
    Effect.map((chunks) => Chunk.toReadonlyArray(chunks).map(({ id, value }) => [id, value]))
  )

describe("an activity", () => {
  it.effect("writes a Stream that programs read while it runs", () =>
    on(
      () => activity(Stream.make("a", "b", { c: 1 })),
      Effect.gen(function* () {
        const id = yield* start()
        const reading = yield* Effect.fork(read(id))
        yield* drain
        const all = [
          ["1-0", "a"],
          ["1-1", "b"],
          ["1-2", { c: 1 }]
        ]
        assert.deepStrictEqual(yield* reading, all)
        assert.deepStrictEqual(yield* read(id, { after: "1-1" }), all.slice(2))
        assert.deepStrictEqual(yield* read(id, { from: -1 }), all.slice(2))
        const { streams } = yield* show(id)
        assert.deepInclude(streams[0], { name: "tokens", generation: 1, state: "done", count: 3 })
      })
    )
  )

  it.effect("begins a new generation after a crash", () => {
    let runs = 0
    const tokens = Stream.suspend(() => {
      runs += 1
      return runs === 1 ? Stream.concat(Stream.make("lost"), Stream.never) : Stream.make("found")
    })
    return on(
      () => activity(tokens),
      Effect.gen(function* () {
        const id = yield* start()
        yield* settle
        yield* crash
        yield* drain
        assert.deepStrictEqual(yield* read(id), [["2-0", "found"]])
      })
    )
  })

  it.effect("fails its readers if it fails, after the chunks before that", () =>
    on(
      () => activity(Stream.concat(Stream.make("a"), Stream.fail(new Refused({ why: "no model" })))),
      Effect.gen(function* () {
        const id = yield* start()
        yield* drain
        const error = yield* Effect.flip(read(id))
        assert.strictEqual(error._tag, "StreamFailed")
        assert.strictEqual((yield* show(id)).streams[0]?.count, 1)
        assert.strictEqual((yield* Effect.flip(read("order/none")))._tag, "ExecutionNotFound")
      })
    )
  )
})
