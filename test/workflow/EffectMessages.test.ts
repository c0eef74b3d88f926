import { assert, it } from "@effect/vitest"
import { Activity, Workflow } from "@effect/workflow"
import { Effect, Layer, Schema } from "effect"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import { TestShift } from "../../src/testing/effect.js"
import { NightshiftWorkflow } from "../../src/workflow/index.js"
import { nap } from "./EffectOrder.js"

// The mailbox and the values of workflows of @effect/workflow, on virtual time.

const Chat = Workflow.make({
  name: "chat",
  payload: { id: Schema.String, left: Schema.Number },
  success: Schema.Array(Schema.Number),
  idempotencyKey: ({ id }) => id
})

const message = { schema: Schema.NumberFromString }

const taken = (count: number) =>
  Effect.forEach(Array.from({ length: count }), (_, index) =>
    Effect.tap(NightshiftWorkflow.next("message", message), (value) =>
      NightshiftWorkflow.set("last", { value, number: index + 1 })
    )
  )

/** Runs the code in a shift. `send` sends a message. */
const onChat = (
  code: Parameters<typeof Chat.toLayer>[0],
  test: (send: (value: string, id?: string) => Effect.Effect<string>) => Effect.Effect<void, unknown, never>
) => {
  const engine = NightshiftWorkflow.make([Chat], { attempts: 1 })
  const layer = Chat.toLayer(code as never).pipe(
    Layer.provideMerge(engine.layer),
    Layer.provideMerge(TestShift.layer({ handlers: engine.handlers }))
  )
  const whole = Effect.gen(function* () {
    const { signal } = yield* Workflows
    const execution = yield* Chat.executionId({ id: "ada", left: 0 })
    yield* test((value, id) => Effect.orDie(signal({ execution, name: "message", value, id })))
  })
  return Effect.provide(whole, layer as unknown as Layer.Layer<Workflows>)
}

type Code = Parameters<typeof Chat.toLayer>[0]

const ended = Effect.gen(function* () {
  const result = yield* Chat.poll(yield* Chat.executionId({ id: "ada", left: 0 }))
  return result?._tag === "Complete" ? result.exit : result?._tag
}) as Effect.Effect<unknown>

it.effect("code takes the values of a signal one after another, although its process is killed, and sets values", () =>
  onChat(
    (() => taken(3)) as unknown as Code,
    (send) =>
      Effect.gen(function* () {
        const shift = yield* TestShift
        const { show, values } = yield* Workflows
        yield* send("1")
        const id = yield* Chat.execute({ id: "ada", left: 0 }, { discard: true })
        yield* shift.settle
        assert.deepStrictEqual(yield* values(id), { last: { value: 1, number: 1 } })
        const { state, waits } = yield* show(id)
        assert.deepStrictEqual(
          [state, waits.map(({ kind, name }) => [kind, name])],
          ["waiting", [["message", "next:message#2"]]]
        )
        yield* shift.crashPod
        assert.strictEqual(yield* send("2", "second"), "appended")
        assert.strictEqual(yield* send("2", "second"), "repeated")
        yield* shift.settle
        yield* send("3")
        yield* shift.settle
        assert.deepInclude(yield* ended, { _tag: "Success", value: [1, 2, 3] })
        assert.deepStrictEqual(yield* values(id), { last: { value: 3, number: 3 } })
        const { steps } = yield* show(id)
        assert.deepStrictEqual(
          steps.map(({ name }) => name),
          ["next:message", "set:last", "next:message#2", "set:last#2", "next:message#3", "set:last#3"]
        )
      }) as Effect.Effect<void>
  )
)

it.effect("values that the code has not taken are kept by a new journal", () => {
  const code = ({ id, left }: { readonly id: string; readonly left: number }) =>
    Effect.gen(function* () {
      const value = yield* NightshiftWorkflow.next("message", message)
      return left === 0 ? [value] : yield* NightshiftWorkflow.continueAs(Chat, { id, left: left - 1 })
    })
  return onChat(
    code as unknown as Code,
    (send) =>
      Effect.gen(function* () {
        const shift = yield* TestShift
        yield* Chat.execute({ id: "ada", left: 2 }, { discard: true })
        for (const value of ["1", "2", "3"]) yield* send(value)
        yield* shift.settle
        assert.deepInclude(yield* ended, { _tag: "Success", value: [3] })
      }) as Effect.Effect<void>
  )
})

it.effect("a message is received beside an activity that runs", () => {
  const log: Array<unknown> = []
  const beside = (_: unknown) =>
    Effect.all(
      [
        Activity.make({ name: "long", execute: Effect.sleep("1 minute") }),
        Effect.tap(taken(2), (values) => Effect.sync(() => void log.push(values)))
      ],
      { concurrency: "unbounded" }
    ).pipe(Effect.zipRight(nap("a while", "1 hour")), Effect.as([]))
  return onChat(
    beside as unknown as Code,
    (send) =>
      Effect.gen(function* () {
        const shift = yield* TestShift
        yield* Chat.execute({ id: "ada", left: 0 }, { discard: true })
        yield* shift.settle
        for (const value of ["1", "2"]) yield* send(value)
        yield* shift.advance("2 seconds")
        assert.deepStrictEqual(log, [[1, 2]])
        yield* shift.drain
        assert.deepInclude(yield* ended, { _tag: "Success", value: [] })
      }) as Effect.Effect<void>
  )
})

it.effect("a value that does not match, and one that is too large to set, are defects that say so", () => {
  const code = ({ left }: { readonly left: number }) =>
    left === 0 ? taken(1) : Effect.as(NightshiftWorkflow.set("big", "x".repeat(5_000)), [])
  return onChat(
    code as unknown as Code,
    (send) =>
      Effect.gen(function* () {
        const shift = yield* TestShift
        const { show } = yield* Workflows
        yield* send("many")
        const id = yield* Chat.execute({ id: "ada", left: 0 }, { discard: true })
        const other = yield* Chat.execute({ id: "bob", left: 1 }, { discard: true })
        yield* shift.drain
        assert.match((yield* show(id)).lastError ?? "", /NumberFromString/)
        assert.match((yield* show(other)).lastError ?? "", /The value of "big" .*4096 bytes as JSON/)
      }) as Effect.Effect<void>
  )
})
