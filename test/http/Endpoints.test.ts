import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { Endpoints } from "../../src/queue/endpoints/Endpoints.js"
import { listen } from "./EventListener.js"
import { adminToken, backends, TestServer } from "./TestServer.js"

const unknown = "0198c0de-0000-7000-8000-00000000dead"
const path = "/api/v1/endpoints"
const url = "https://customer.example.org/hooks/t0ken?key=s3cret"

describe.each(backends)("on %s, /api/v1/endpoints", (_, layer) => {
  it.scopedLive("creates, changes, rotates, disables, enables and deletes an endpoint, and audits it", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const made = yield* admin("POST", path, { json: { url, customer: "acme", types: ["order.paid"] } })
      expect(made).toMatchObject({
        status: 201,
        json: { url, customer: "acme", types: ["order.paid"], standing: "healthy", disabledAt: null, failures: 0 }
      })
      const { id, secret } = JSON.parse(made.text)
      expect(secret).toMatch(/^whsec_/)
      const one = `${path}/${id}`
      expect((yield* admin("PATCH", one, { json: { types: null, description: "new" } })).json).toMatchObject({
        types: null,
        description: "new"
      })
      const rotated = yield* admin("POST", `${one}/rotate`, { json: { keep: "7d" } })
      expect(JSON.parse(rotated.text).secret).not.toBe(secret)
      expect((yield* admin("POST", `${one}/rotate`)).status).toBe(200)
      expect((yield* admin("POST", `${one}/disable`)).json).toMatchObject({
        standing: "disabled",
        disabledBecause: "operator"
      })
      expect((yield* admin("GET", `${path}?standing=disabled&customer=acme`)).json).toMatchObject({
        endpoints: [{ id }],
        next: null
      })
      expect((yield* admin("POST", `${one}/enable`)).json).toMatchObject({ standing: "healthy" })
      const shown = yield* admin("GET", one)
      const sent = yield* admin("POST", `${path}/send`, {
        json: { customer: "acme", type: "order.paid", data: { order: 7 }, id: "A-17" }
      })
      expect(sent).toMatchObject({ status: 201, json: { sent: [{ endpoint: id, outcome: "enqueued" }] } })
      const [{ id: job }] = JSON.parse(sent.text).sent
      expect((yield* admin("GET", `/api/v1/jobs?key=${id}`)).json).toMatchObject({ jobs: [{ id: job, key: id }] })
      expect((yield* admin("GET", `/api/v1/jobs?key=${unknown}`)).json).toMatchObject({ jobs: [] })
      expect((yield* admin("DELETE", one)).json).toMatchObject({ id })
      expect((yield* admin("GET", one)).status).toBe(404)
      const audit = yield* admin("GET", `/api/v1/audit?target=${id}`)
      const acts = (audit.json as { entries: ReadonlyArray<{ act: string }> }).entries.map(({ act }) => act)
      expect(acts).toEqual(
        ["delete", "enable", "disable", "rotate", "rotate", "change", "create"].map((act) => `endpoint.${act}`)
      )
      for (const { text } of [shown, audit]) expect(text).not.toContain("whsec_")
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("shows viewers neither secrets nor paths, and lets them change nothing", () =>
    Effect.gen(function* () {
      const { admin, viewer } = yield* TestServer
      const { id } = JSON.parse((yield* admin("POST", path, { json: { url, customer: "viewed" } })).text)
      for (const seen of [yield* viewer("GET", `${path}/${id}`), yield* viewer("GET", `${path}?customer=viewed`)]) {
        expect(seen.status).toBe(200)
        expect(seen.text).toContain("https://customer.example.org/…")
        expect(seen.text).not.toMatch(/s3cret|t0ken|whsec_/)
      }
      yield* admin("PATCH", `${path}/${id}`, { json: { url: `${url}2` } })
      yield* admin("DELETE", `${path}/${id}`)
      const audit = `/api/v1/audit?target=${id}`
      expect((yield* admin("GET", audit)).text).toContain("key=s3cret2")
      const { text } = yield* viewer("GET", audit)
      expect(text).toContain("https://customer.example.org/…")
      expect(text).not.toMatch(/s3cret|t0ken/)
      for (const [method, at] of [
        ["POST", path],
        ["PATCH", `${path}/${id}`],
        ["POST", `${path}/${id}/rotate`],
        ["POST", `${path}/${id}/enable`],
        ["POST", `${path}/send`],
        ["DELETE", `${path}/${id}`]
      ] as const)
        expect((yield* viewer(method, at, { json: {} })).status).toBe(403)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("says what is wrong with a request, and warns of endpoints that were disabled automatically", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const refused = (at: string, json: unknown) => admin("POST", `${path}${at}`, { json })
      expect(yield* refused("", { url: "ftp://x" })).toMatchObject({ status: 400, json: { error: { field: "url" } } })
      expect(yield* refused("", { url, secret: "hunter2" })).toMatchObject({ json: { error: { field: "secret" } } })
      expect((yield* refused("", { url, secret: "hunter2" })).text).not.toContain("hunter2")
      expect(yield* refused("", { url, color: "red" })).toMatchObject({ status: 400 })
      expect(yield* refused("/send", { type: "x", data: 1, endpoint: unknown })).toMatchObject({ status: 404 })
      expect(yield* refused("/send", { data: 1 })).toMatchObject({ status: 400 })
      expect((yield* admin("GET", `${path}?standing=odd`)).status).toBe(400)
      expect((yield* admin("POST", `${path}/${unknown}/enable`)).json).toMatchObject({
        error: { tag: "EndpointNotFound" }
      })
      const endpoints = yield* Endpoints
      const { id } = yield* endpoints.create({ url, customer: "acme" })
      yield* endpoints.failed(id, { url, error: "gone", isGone: true, disableAfter: 0 })
      const message = "The endpoint customer.example.org of acme is disabled: it responded 410 Gone."
      const events = yield* listen("/api/v1/events", { authorization: `Bearer ${adminToken}` })
      const { data } = yield* events.heard("snapshot")
      const warning = { code: "endpoint_disabled", message, subject: id }
      expect(data).toMatchObject({ warnings: expect.arrayContaining([warning]) })
    }).pipe(Effect.provide(layer()))
  )
})
