import { assert, expect, layer } from "@effect/vitest"
import { Validator } from "@seriousme/openapi-schema-validator"
import { Effect, Layer } from "effect"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import * as GeneratedClient from "./GeneratedClient.js"
import { adminToken, layerPostgres, TestServer, viewerToken } from "./TestServer.js"

interface Operation {
  readonly operationId: string
  readonly security: ReadonlyArray<unknown>
  readonly parameters: ReadonlyArray<{
    readonly name: string
    readonly in: string
    readonly required: boolean
    readonly description?: string
  }>
  readonly requestBody?: unknown
  readonly responses: Readonly<Record<string, unknown>>
}

interface Walked extends Operation {
  readonly method: string
  readonly path: string
}

const document = Effect.flatMap(TestServer, ({ viewer }) =>
  Effect.map(viewer("GET", "/api/v1/openapi.json"), ({ text }) => text)
)

/** Every operation of the document. */
const operations = Effect.map(document, (text): ReadonlyArray<Walked> => {
  const { paths } = JSON.parse(text) as { paths: Record<string, Record<string, Operation>> }
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ ...operation, path, method: method.toUpperCase() }))
  )
})

const id = "0198c0de-0000-7000-8000-000000000001"

const addressOf = ({ path }: Walked) => path.replaceAll("{id}", id).replaceAll(/\{\w+\}/g, "nowhere")

/** Status of an answer without reading its body, which may be endless. */
const statusOf = (operation: Walked, token?: string) =>
  Effect.gen(function* () {
    const { port } = yield* TestServer
    const hasBody = operation.requestBody !== undefined
    return yield* Effect.promise(async () => {
      const response = await fetch(`http://127.0.0.1:${port}${addressOf(operation)}`, {
        method: operation.method,
        headers: {
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
          ...(hasBody ? { "content-type": "application/json" } : {})
        },
        ...(hasBody ? { body: "{}" } : {})
      })
      await response.body?.cancel()
      return response.status
    })
  })

/** Every role may log in and log out. */
const everybodys = new Set(["session.login", "session.logout"])

layer(Layer.orDie(layerPostgres()), { excludeTestServices: true })("the contract", (it) => {
  it.effect("is a valid OpenAPI document", () =>
    Effect.gen(function* () {
      const specification = JSON.parse(yield* document)
      const { errors, valid } = yield* Effect.promise(() => new Validator().validate(specification))
      assert.isTrue(valid, JSON.stringify(errors))
      const ids = (yield* operations).map(({ operationId }) => operationId)
      expect(new Set(ids).size).toBe(ids.length)
    })
  )

  it.effect("describes every field of a job filter, as a parameter and in a body", () =>
    Effect.gen(function* () {
      const { components, paths } = JSON.parse(yield* document)
      const properties: Readonly<Record<string, { readonly description?: string }>> =
        components.schemas.JobFilter.properties
      const { parameters } = paths["/api/v1/jobs"].get as Operation
      for (const [name, { description }] of Object.entries(properties)) {
        expect(description, name).toMatch(/^(Finished |Dead )?[Jj]obs /)
        expect(parameters, name).toContainEqual(
          expect.objectContaining({ name, description: expect.stringContaining("obs ") })
        )
      }
    })
  )

  it.effect("describes every query parameter", () =>
    Effect.gen(function* () {
      const queries = (yield* operations).flatMap(({ parameters, path }) =>
        parameters.filter((parameter) => parameter.in === "query").map((parameter) => ({ ...parameter, path }))
      )
      expect(queries.length).toBeGreaterThan(40)
      expect(queries.filter(({ description = "" }) => !description.endsWith("."))).toEqual([])
    })
  )

  it.effect("allows anonymous callers only to log in", () =>
    Effect.gen(function* () {
      const all = yield* operations
      expect(all.length).toBeGreaterThan(40)
      for (const operation of all) {
        const status = yield* statusOf(operation)
        const isOpen = operation.security.length === 0
        assert.strictEqual(status, isOpen ? 400 : 401, operation.operationId)
      }
      const open = all.filter(({ security }) => security.length === 0).map(({ operationId }) => operationId)
      expect(open).toEqual(["session.login"])
    })
  )

  it.effect("lets a viewer read everything and change nothing", () =>
    Effect.gen(function* () {
      for (const operation of yield* operations) {
        if (everybodys.has(operation.operationId)) continue
        const status = yield* statusOf(operation, viewerToken)
        const allowed = operation.method === "GET" ? [200, 404] : [403]
        assert.include(allowed, status, operation.operationId)
      }
    })
  )

  it.effect("allows the admin everything, and matches the actual answers", () =>
    Effect.gen(function* () {
      for (const operation of yield* operations) {
        const status = yield* statusOf(operation, adminToken)
        assert.notInclude([401, 403], status, operation.operationId)
        assert.property(operation.responses, String(status), operation.operationId)
      }
    })
  )

  it.scoped("is enough to generate a client that enqueues, lists, cancels and changes a queue", () =>
    Effect.gen(function* () {
      const { admin, port } = yield* TestServer
      yield* Effect.flatMap(Queues, (queues) => queues.declare(["mail"]))
      const call = yield* GeneratedClient.make(yield* document, `http://127.0.0.1:${port}`, adminToken)
      const payload = { jobs: [{ kind: "greet", payload: { name: "Ada", ü: [null, 1.5] }, priority: 3 }] }
      const enqueued = yield* call("jobsEnqueue")({ params: { "idempotency-key": "once" }, payload })
      const again = yield* call("jobsEnqueue")({ params: { "idempotency-key": "once" }, payload })
      expect(again).toEqual(enqueued)
      const [job] = (enqueued as { jobs: ReadonlyArray<{ id: string; outcome: string }> }).jobs
      assert(job !== undefined)
      expect(job.outcome).toBe("enqueued")
      const wanted = { state: ["pending"], kind: ["greet"], payload: '{"name":"Ada"}' }
      expect(yield* call("jobsList")(wanted)).toMatchObject({
        jobs: [{ id: job.id, queue: "mail", state: "pending", priority: 3 }],
        total: { count: 1, exact: true }
      })
      // The generator omits fields of any type.
      expect((yield* admin("GET", `/api/v1/jobs/${job.id}`)).json).toMatchObject({ payload: payload.jobs[0]?.payload })
      expect(yield* call("jobsCancel")(job.id)).toMatchObject({ state: "cancelled", reason: "cancelled" })
      const refused = yield* Effect.flip(call("jobsRunNow")(job.id))
      expect(refused).toMatchObject({ _tag: "Problem", cause: { error: { tag: "JobNotInState" } } })
      expect(yield* call("queuesChange")("mail", { paused: true, maxWorkers: 3 })).toMatchObject({
        name: "mail",
        paused: true,
        maxWorkers: 3
      })
      // Calls every GET without path parameters once: each answer must match its schema.
      const lists = (yield* operations).filter(
        ({ method, operationId, path }) => method === "GET" && !path.includes("{") && operationId !== "events.follow"
      )
      for (const { operationId } of lists) {
        const read = yield* Effect.either(call(GeneratedClient.nameOf(operationId))())
        assert.strictEqual(read._tag, "Right", `${operationId}: ${JSON.stringify(read)}`)
      }
    })
  )
})
