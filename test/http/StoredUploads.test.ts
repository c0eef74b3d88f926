import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Database } from "../../src/database/Database.js"
import { Storage } from "../../src/uploads/Storage.js"
import * as StorageMemory from "../../src/uploads/StorageMemory.js"
import { layerWithoutDatabase, TestServer } from "./TestServer.js"
import { acme, client, idsOf, layerMemory, layerPostgres } from "./UploadServer.js"

const nobody = "0198c0de-0000-7000-8000-000000000001"

/** Another client acknowledges each file and the sweeper deletes it, just before an acknowledgement is written. */
const sweptAtTheLastMoment = Layer.effect(
  Storage,
  Effect.map(Storage, (storage) => ({
    ...storage,
    ack: (...file: Parameters<typeof storage.ack>) =>
      storage.ack(...file).pipe(Effect.zipRight(storage.sweep(0)), Effect.zipRight(storage.ack(...file)))
  }))
).pipe(Layer.provide(StorageMemory.layer))

describe("an acknowledgement that races with the sweeper", () => {
  it.scopedLive("succeeds like any other, and so do later ones", () =>
    Effect.gen(function* () {
      const { ack, upload } = yield* client()
      const [id = ""] = idsOf(yield* upload({ content: "x" }))
      expect(yield* ack(id)).toMatchObject({ status: 200, json: { acked: true, raced: true } })
      expect(yield* ack(id)).toMatchObject({ status: 200, json: { acked: true, raced: true } })
    }).pipe(Effect.provide(layerMemory({}, sweptAtTheLastMoment)))
  )
})

describe("files that a program stored", () => {
  it.scopedLive("have safe headers, whatever the program calls them", () =>
    Effect.gen(function* () {
      const { content } = yield* client()
      const storage = yield* Storage
      const id = yield* storage.put(acme, {
        filename: 'a"; x="\r\nb\u00e9.html',
        mimetype: "text/html\r\nX-Injected: 1",
        content: Buffer.from("x")
      })
      const { headers, status } = yield* content(id)
      expect(status).toBe(200)
      expect(headers["content-disposition"]).toBe(
        "attachment; filename=\"a___x____be.html\"; filename*=UTF-8''a%22%3B%20x%3D%22__b%C3%A9.html"
      )
      expect(headers["content-type"]).toBe("application/octet-stream")
      expect(headers["x-injected"]).toBeUndefined()
    }).pipe(Effect.provide(layerPostgres()))
  )
})

describe("the operator's view of files", () => {
  it.scopedLive("shows their number, and the workspaces that do not fetch theirs", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const { ack, upload } = yield* client()
      const [id = ""] = idsOf(yield* upload({ content: "12345" }, { content: "678" }))
      yield* ack(id)
      expect((yield* admin("GET", "/api/v1/uploads")).json).toEqual({
        counts: { waiting: 1, fetched: 0, acked: 1, expired: 0 },
        stuck: []
      })
      expect((yield* admin("GET", "/api/v1/uploads/files?state=acked&workspace=acme")).json).toMatchObject({
        files: [{ id, workspace: "acme", name: "a.txt", state: "acked", size: 5, ackedAt: expect.any(String) }],
        next: null
      })
      const newest = yield* admin("GET", "/api/v1/uploads/files?limit=1")
      expect(newest.json).toMatchObject({ files: [{ state: "waiting", size: 3, ackedAt: null }] })
      for (const query of ["state=lost", "cursor=nowhere", "limit=0", "sate=acked"]) {
        expect(yield* admin("GET", `/api/v1/uploads/files?${query}`)).toMatchObject({ status: 400 })
      }
      const { sql } = yield* Database
      yield* sql`update nightshift.upload set created_at = created_at - interval '2 hours'`
      expect((yield* admin("GET", "/api/v1/uploads")).json).toMatchObject({
        stuck: [{ workspace: "acme", files: 1, bytes: 3, waitingSeconds: expect.closeTo(7200, -2) }]
      })
    }).pipe(Effect.provide(layerPostgres()))
  )
})

describe("uploads without a database", () => {
  it.scopedLive("report that they are off", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      for (const [method, path] of [
        ["POST", "/uploads/acme"],
        ["GET", "/uploads/acme"],
        ["POST", `/uploads/acme/${nobody}/ack`]
      ] as const) {
        expect(yield* ask(method, path, { body: "x".repeat(100_000) })).toMatchObject({
          status: 503,
          json: { error: { tag: "DatabaseOff", message: expect.stringContaining("uploads are off") } }
        })
      }
    }).pipe(Effect.provide(layerWithoutDatabase()))
  )
})
