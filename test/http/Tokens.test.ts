import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestServer } from "./TestServer.js"
import { layerMemory, layerPostgres } from "./UploadServer.js"

describe("tokens over HTTP", () => {
  it.scopedLive("are created once, listed without their secret, and revoked", () =>
    Effect.gen(function* () {
      const { admin, ask } = yield* TestServer
      const made = yield* admin("POST", "/api/v1/workspaces/acme/tokens")
      expect(made.status).toBe(201)
      const { id, token } = made.json as { id: string; token: string }
      expect(Object.keys(made.json as object)).toEqual(["id", "token"])
      yield* admin("POST", "/api/v1/workspaces/acme/tokens", { json: { label: "laptop" } })
      const listed = yield* admin("GET", "/api/v1/workspaces/acme/tokens")
      expect(listed).toMatchObject({
        status: 200,
        json: { tokens: [{ id, label: "", prefix: token.slice(0, 12) }, { label: "laptop" }] }
      })
      expect(listed.text).not.toContain(token.slice(12))
      expect(yield* ask("GET", "/uploads/acme", { token })).toMatchObject({ status: 200 })
      expect(yield* admin("DELETE", `/api/v1/workspaces/other/tokens/${id}`)).toMatchObject({ status: 404 })
      expect(yield* admin("DELETE", `/api/v1/workspaces/acme/tokens/${id}`)).toMatchObject({
        status: 200,
        json: { id }
      })
      expect(yield* admin("DELETE", `/api/v1/workspaces/acme/tokens/${id}`)).toMatchObject({ status: 404 })
      expect(yield* ask("GET", "/uploads/acme", { token })).toMatchObject({ status: 401 })
    }).pipe(Effect.provide(layerPostgres()))
  )

  it.scopedLive("require a valid workspace name and label", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      for (const workspace of ["-x", ".hidden", "a%20b", "x".repeat(65), "a%2fb"]) {
        expect(yield* admin("POST", `/api/v1/workspaces/${workspace}/tokens`)).toMatchObject({
          status: 400,
          json: { error: { field: "workspace" } }
        })
      }
      for (const json of [{ label: "x".repeat(101) }, { label: 5 }, { lable: "x" }, [], "x"]) {
        expect(yield* admin("POST", "/api/v1/workspaces/acme/tokens", { json })).toMatchObject({ status: 400 })
      }
      const unstorable = yield* admin("POST", "/api/v1/workspaces/acme/tokens", { json: { label: "a\u0000" } })
      expect(unstorable).toMatchObject({ status: 400, json: { error: { message: expect.stringContaining("NUL") } } })
      expect((yield* admin("GET", "/api/v1/workspaces/acme/tokens")).json).toEqual({ tokens: [] })
    }).pipe(Effect.provide(layerMemory()))
  )
})
