import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { ExecutionFilter } from "../../src/queue/workflow/Execution.js"
import { ends, type Law } from "./Line.js"
import { begin, end, executionOf, step } from "./WorkflowLine.js"

/** Tags of executions, and lists by them. */
export const tagLaws = (law: Law): void => {
  law("a new execution has the tags of its start, an existing one keeps its own", (line) =>
    Effect.gen(function* () {
      const execution = `${line.name}/order`
      yield* line.workflows.start(executionOf(line, "order", { tags: { customer: "42" } }))
      const again = yield* line.workflows.start(executionOf(line, "order", { tags: { customer: "43", vip: "yes" } }))
      assert.strictEqual(again.outcome, "deduplicated")
      assert.deepStrictEqual((yield* line.workflows.show(execution)).tags, { customer: "42" })
      yield* line.workflows.start(executionOf(line, "plain"))
      assert.deepStrictEqual((yield* line.workflows.show(`${line.name}/plain`)).tags, {})
    })
  )

  law("tags are set, replaced and removed, even after the end", (line) =>
    Effect.gen(function* () {
      const execution = `${line.name}/order`
      const job = yield* begin(line)
      const tag = (tags: Record<string, string | null>, id = execution) => line.workflows.tag(id, tags)
      assert.deepStrictEqual(yield* tag({ customer: "42", region: "eu" }), { customer: "42", region: "eu" })
      yield* end(line, job, ends.dead)
      assert.deepStrictEqual(yield* tag({ customer: null, region: "us", none: null }, job.id), { region: "us" })
      assert.deepStrictEqual((yield* line.workflows.show(execution)).tags, { region: "us" })
      assert.strictEqual((yield* Effect.flip(tag({ a: "b" }, `${line.name}/none`)))._tag, "ExecutionNotFound")
    })
  )

  law("a run sets tags only while it holds its lease", (line) =>
    Effect.gen(function* () {
      const execution = `${line.name}/order`
      const job = yield* begin(line)
      assert.deepStrictEqual(yield* line.workflows.tagHeld(job, { stage: "1" }), { stage: "1" })
      assert.strictEqual((yield* Effect.flip(line.workflows.tagHeld(job, { stage: "" })))._tag, "InvalidTags")
      yield* end(line, job, ends.done)
      assert.strictEqual((yield* Effect.flip(line.workflows.tagHeld(job, { stage: "2" })))._tag, "LeaseLost")
      assert.deepStrictEqual((yield* line.workflows.show(execution)).tags, { stage: "1" })
    })
  )

  law("invalid tags are refused, and nothing is changed", (line) =>
    Effect.gen(function* () {
      const execution = `${line.name}/order`
      const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`tag${n}`, "x"]))
      yield* line.workflows.start(executionOf(line, "order", { tags: many(16) }))
      const refused = (tags: Record<string, string | null>) =>
        Effect.map(Effect.flip(line.workflows.tag(execution, tags)), ({ message }) => message)
      assert.strictEqual(yield* refused({ more: "x" }), "An execution has at most 16 tags, got 17.")
      assert.strictEqual(yield* refused({ "a=b": "x" }), 'The name of the tag "a=b" must not contain "=".')
      assert.strictEqual(yield* refused({ tag0: "" }), 'The tag "tag0" must not be empty.')
      assert.match(yield* refused({ tag0: "x".repeat(257) }), /at most 256 characters/)
      assert.match(yield* refused({ ["x".repeat(65)]: "x" }), /at most 64 characters/)
      assert.deepStrictEqual((yield* line.workflows.show(execution)).tags, many(16))
      assert.deepStrictEqual(Object.keys(yield* line.workflows.tag(execution, { more: "x", tag0: null })).length, 16)
      const none = yield* Effect.flip(line.workflows.start(executionOf(line, "other", { tags: many(17) })))
      assert.strictEqual(none._tag, "InvalidTags")
      assert.strictEqual((yield* Effect.flip(line.workflows.show(`${line.name}/other`)))._tag, "ExecutionNotFound")
    })
  )

  law("executions are listed by tags and by the time of their start, newest first", (line) =>
    Effect.gen(function* () {
      const [customer, prefix] = [line.name, `${line.name}/`]
      const start = (name: string, tags: Record<string, string>) =>
        line.workflows.start(executionOf(line, name, { tags }))
      yield* start("a", { customer, region: "eu" })
      yield* line.advance("1 minute")
      const middle = yield* line.now
      yield* start("b", { customer, region: "us" })
      yield* line.advance("1 minute")
      yield* start("c", { customer: `${customer}-2`, region: "eu" })
      yield* start("d", { customer, region: "eu" })
      const names = (filter: ExecutionFilter, limit = 10, before?: string) =>
        Effect.map(line.workflows.list({ prefix, ...filter }, { limit, before }), ({ executions }) =>
          executions.map(({ execution }) => execution.slice(prefix.length)).join("")
        )
      const found = (filter: ExecutionFilter, expected: string) =>
        Effect.gen(function* () {
          assert.strictEqual(yield* names(filter), expected)
          assert.strictEqual(yield* line.workflows.count({ prefix, ...filter }), expected.length)
        })
      yield* found({ tag: { customer } }, "dba")
      yield* found({ tag: { region: "eu", customer } }, "da")
      yield* found({ tag: { customer, region: "none" } }, "")
      yield* found({ tag: { region: customer } }, "")
      yield* found({ tag: {} }, "dcba")
      yield* found({ since: middle }, "dcb")
      yield* found({ until: middle }, "a")
      yield* found({ tag: { customer }, since: middle, until: middle + 1 }, "b")
      yield* found({ tag: { customer }, state: "pending", workflow: "order" }, "dba")
      yield* found({ tag: { customer }, state: "waiting" }, "")
      const page = yield* line.workflows.list({ prefix, tag: { customer } }, { limit: 2 })
      assert.strictEqual(yield* names({ tag: { customer } }, 2), "db")
      assert.strictEqual(yield* names({ tag: { customer } }, 2, page.next), "a")
      const last = yield* line.workflows.list({ prefix, tag: { customer } }, { limit: 2, before: page.next })
      assert.strictEqual(last.next, undefined)
    })
  )

  law("a fork has the tags of its original, which are deleted with it", (line) =>
    Effect.gen(function* () {
      const tags = { customer: line.name }
      const job = yield* begin(line, "order", { tags })
      yield* line.workflows.record(job, step("charge"))
      yield* end(line, job, ends.dead)
      const fork = yield* line.workflows.fork(`${line.name}/order`, "charge")
      assert.deepStrictEqual((yield* line.workflows.show(fork.execution)).tags, tags)
      assert.strictEqual(yield* line.workflows.count({ tag: tags }), 2)
      yield* line.jobAdmin.remove(job.id)
      yield* line.workflows.start(executionOf(line, "order"))
      assert.deepStrictEqual((yield* line.workflows.show(`${line.name}/order`)).tags, {})
      assert.strictEqual(yield* line.workflows.count({ tag: tags }), 1)
    })
  )
}
