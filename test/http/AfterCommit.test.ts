import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { DatabaseUnavailable } from "../../src/database/DatabaseError.js"
import { JobSearch, SearchTooSlow } from "../../src/queue/search/JobSearch.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import { behind, layerOverAll, portsMemory, TestServer } from "./TestServer.js"

const lost = new DatabaseUnavailable({ detail: "Connection terminated unexpectedly", nothingWritten: true })
const lostCommit = new DatabaseUnavailable({ detail: "Connection terminated unexpectedly", nothingWritten: false })

/** Workflows whose reads fail once one of their changes is committed. */
const losing = (change: "ask" | "ask, uncertain" | "retry" | "unpin") => {
  const wrapped = Layer.effect(
    Workflows,
    Effect.map(Workflows, (workflows) => {
      let isLost = false
      const losing = <A, E, R>(made: Effect.Effect<A, E, R>) =>
        Effect.tap(made, () =>
          Effect.sync(() => {
            isLost = true
          })
        )
      const read = <A, E, R>(found: Effect.Effect<A, E, R>) =>
        Effect.suspend((): Effect.Effect<A, E | DatabaseUnavailable, R> => (isLost ? lost : found))
      return {
        ...workflows,
        ask: (ask) =>
          change === "ask, uncertain" ? Effect.zipRight(workflows.ask(ask), lostCommit) : losing(workflows.ask(ask)),
        retry: (execution) => losing(workflows.retry(execution)),
        unpin: (which) => losing(workflows.unpin(which)),
        awaitAnswer: (ask) => read(workflows.awaitAnswer(ask)),
        show: (execution) => read(workflows.show(execution))
      } satisfies typeof Workflows.Service
    })
  )
  return layerOverAll(Layer.provideMerge(wrapped, portsMemory), behind)
}

/** Counting takes too long. */
const slow = Layer.effect(
  JobSearch,
  Effect.map(JobSearch, (search) => ({ ...search, counts: new SearchTooSlow({ seconds: 10 }) }))
)

const execution = "greet/Ada"
const path = `/api/v1/workflows/${encodeURIComponent(execution)}`

const start = Effect.flatMap(TestServer, ({ admin }) =>
  admin("POST", "/api/v1/workflows", { json: { workflow: "greet", key: "Ada", payload: { name: "Ada" } } })
)

const act = (name: string, json: object) =>
  Effect.flatMap(TestServer, ({ admin }) => admin("POST", `${path}/${name}`, { json }))

const audited = Effect.gen(function* () {
  const { admin } = yield* TestServer
  const { entries } = (yield* admin("GET", "/api/v1/audit")).json as {
    readonly entries: ReadonlyArray<{ readonly act: string; readonly after: { readonly id?: string } | null }>
  }
  return entries[0]
})

describe("a database failure after the commit of a change", () => {
  it.scopedLive("of an ask returns the id with which to ask again", () =>
    Effect.gen(function* () {
      yield* start
      const failed = yield* act("ask", { name: "add", value: 1 })
      const stored = yield* audited
      expect(stored).toMatchObject({ act: "workflow.ask", after: { id: expect.any(String) } })
      expect(failed).toMatchObject({
        status: 503,
        json: { error: { tag: "AskInterrupted", message: expect.stringContaining(`the id "${stored?.after?.id}"`) } }
      })
    }).pipe(Effect.provide(losing("ask")))
  )

  it.scopedLive("of an ask returns its id if the commit itself may have failed", () =>
    Effect.gen(function* () {
      yield* start
      expect(yield* act("ask", { name: "add", value: 1, id: "mine" })).toMatchObject({
        status: 503,
        json: { error: { tag: "AskInterrupted", message: expect.stringContaining('the id "mine"') } }
      })
    }).pipe(Effect.provide(losing("ask, uncertain")))
  )

  it.scopedLive("of a retry does not report that nothing was changed", () =>
    Effect.gen(function* () {
      yield* start
      yield* act("cancel", { now: true })
      const failed = yield* act("retry", {})
      expect(yield* audited).toMatchObject({ act: "workflow.retry" })
      expect(failed).toMatchObject({ status: 503, json: { error: { tag: "DatabaseUnavailable" } } })
      expect(failed.text).not.toContain("nothing was changed")
    }).pipe(Effect.provide(losing("retry")))
  )

  it.scopedLive("of an unpin does not report that nothing was changed", () =>
    Effect.gen(function* () {
      yield* start
      const failed = yield* act("unpin", {})
      expect(yield* audited).toMatchObject({ act: "workflow.unpin" })
      expect(failed).toMatchObject({ status: 503, json: { error: { tag: "DatabaseUnavailable" } } })
      expect(failed.text).not.toContain("nothing was changed")
    }).pipe(Effect.provide(losing("unpin")))
  )

  it.scopedLive("of a queue's settings returns them without counts", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      yield* Effect.flatMap(Queues, ({ declare }) => declare(["mail"]))
      expect(yield* admin("GET", "/api/v1/queues")).toMatchObject({ json: { error: { tag: "SearchTooSlow" } } })
      expect(yield* admin("PATCH", "/api/v1/queues/mail", { json: { maxWorkers: 7 } })).toMatchObject({
        status: 200,
        json: { maxWorkers: 7, counts: { pending: { value: 0, kind: "atLeast" } } }
      })
    }).pipe(Effect.provide(layerOverAll(Layer.provideMerge(slow, portsMemory), behind)))
  )
})
