import { createHash } from "node:crypto"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Option, Schema } from "effect"
import { Workspace } from "../../src/core/Ids.js"
import { digestOf } from "../../src/database/SubjectText.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { Storage } from "../../src/uploads/Storage.js"
import { chunkBytes } from "../../src/uploads/Upload.js"
import { pattern } from "../laws/PutLaws.js"
import { adminToken, onSharedServers, TestServer } from "./TestServer.js"
import { acme, backends, client, form, formType, idsOf, type Part } from "./UploadServer.js"

const sha256 = (content: string | Uint8Array) => createHash("sha256").update(content).digest("hex")
const workspace = Schema.decodeSync(Workspace)
const other = workspace("other")
const unknown = "0198c0de-0000-7000-8000-000000000001"

onSharedServers(backends, "files", (it) => {
  it.effect("are uploaded, listed, fetched and acknowledged", () =>
    Effect.gen(function* () {
      const { ack, content, list, upload } = yield* client()
      const answer = yield* upload(
        { filename: "a.txt", type: "text/plain; charset=utf-8", content: "hello" },
        { filename: "b.bin", type: "application/x-thing", content: pattern(chunkBytes + 3) }
      )
      const [first = "", second = ""] = idsOf(answer)
      const facts = [
        {
          id: first,
          uri: `nightshift-upload:acme/${first}`,
          name: "a.txt",
          mimeType: "text/plain",
          size: 5,
          sha256: sha256("hello")
        },
        {
          id: second,
          uri: `nightshift-upload:acme/${second}`,
          name: "b.bin",
          mimeType: "application/x-thing",
          size: chunkBytes + 3,
          sha256: sha256(pattern(chunkBytes + 3))
        }
      ]
      expect(answer).toMatchObject({ status: 201, json: { files: facts } })
      expect(yield* list).toMatchObject({
        status: 200,
        json: { files: facts.map((fact) => ({ ...fact, fetchedAt: null })) }
      })
      const fetched = yield* content(first)
      expect(fetched).toMatchObject({ status: 200, text: "hello" })
      expect(fetched.headers).toMatchObject({
        "content-type": "text/plain",
        "content-length": "5",
        "content-disposition": 'attachment; filename="a.txt"',
        "content-security-policy": "sandbox",
        "x-content-type-options": "nosniff",
        "accept-ranges": "bytes",
        etag: `"${sha256("hello")}"`
      })
      // Recorded after the last byte, which the caller may have read before.
      const look = Effect.flatMap(Storage, (storage) => storage.get(acme, facts[0]?.id as never))
      yield* Effect.repeat(look, { until: ({ upload }) => upload.fetchedAt !== undefined })
      expect(yield* ack(first)).toMatchObject({ status: 200, json: { acked: true } })
      expect((yield* ack(first)).json).toEqual({ acked: true })
      expect((yield* list).json).toMatchObject({ files: [{ id: second }] })
      expect(yield* content(first)).toMatchObject({ status: 200, text: "hello" })
    })
  )

  it.effect("are not sent again to a client that has them", () =>
    Effect.gen(function* () {
      const { content, upload } = yield* client()
      const [id = ""] = idsOf(yield* upload({ content: "hello" }))
      const tag = `"${sha256("hello")}"`
      for (const known of [tag, `W/${tag}`, `"other", ${tag}`, "*"]) {
        const answer = yield* content(id, { "if-none-match": known })
        expect(answer).toMatchObject({ status: 304, text: "", headers: { etag: tag } })
      }
      for (const unknown of ['"other"', sha256("hello"), `${tag.slice(0, -1)}`]) {
        expect(yield* content(id, { "if-none-match": unknown })).toMatchObject({ status: 200, text: "hello" })
      }
    })
  )

  it.effect("are fetched in ranges", () =>
    Effect.gen(function* () {
      const { content, head, upload } = yield* client()
      const [id = ""] = idsOf(yield* upload({ content: "0123456789" }))
      const part = (range: string, more = {}) => content(id, { range, ...more })
      expect(yield* part("bytes=2-4")).toMatchObject({
        status: 206,
        text: "234",
        headers: { "content-range": "bytes 2-4/10", "content-length": "3" }
      })
      expect(yield* part("bytes=7-")).toMatchObject({ status: 206, text: "789" })
      expect(yield* part("bytes=-3")).toMatchObject({ status: 206, text: "789" })
      expect(yield* part("bytes=-99")).toMatchObject({ status: 206, text: "0123456789" })
      expect(yield* part("bytes=8-99")).toMatchObject({
        status: 206,
        text: "89",
        headers: { "content-range": "bytes 8-9/10" }
      })
      for (const beyond of ["bytes=10-", "bytes=10-12", "bytes=999999999999999-", "bytes=-0"]) {
        expect(yield* part(beyond)).toMatchObject({
          status: 416,
          headers: { "content-range": "bytes */10" },
          json: { error: { tag: "RangeRefused" } }
        })
      }
      for (const nonsense of ["bytes=4-2", "bytes=a-b", "bytes=-", "lines=1-2", "bytes=0-1,3-4", "bytes=1e3-"]) {
        expect(yield* part(nonsense)).toMatchObject({ status: 200, text: "0123456789" })
      }
      const tag = `"${sha256("0123456789")}"`
      expect(yield* head(id, { range: "bytes=2-4" })).toMatchObject({
        status: 200,
        headers: { "content-length": "10" }
      })
      expect(yield* part("bytes=2-4", { "if-range": tag })).toMatchObject({ status: 206 })
      expect(yield* part("bytes=2-4", { "if-range": '"another"' })).toMatchObject({ status: 200 })
    })
  )

  it.effect("belong to one workspace: another's token is refused, and another's file does not exist", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      const mine = yield* client()
      const theirs = yield* client(other)
      const [id = ""] = idsOf(yield* mine.upload({ content: "mine" }))
      const [their = ""] = idsOf(yield* theirs.upload({ content: "theirs" }))
      const malformed = ["not-an-id", id.slice(0, -1), `${id}0`]
      const routes = [
        ["GET", "content", [their, unknown, ...malformed]],
        ["POST", "ack", malformed]
      ] as const
      for (const [method, act, ids] of routes) {
        const answers = yield* Effect.forEach(ids, (wrong) =>
          ask(method, `/uploads/acme/${wrong}/${act}`, { token: mine.token })
        )
        for (const { json, status } of answers)
          expect({ json, status }).toEqual({ json: answers[0]?.json, status: 404 })
        expect(JSON.stringify(answers[0]?.json)).not.toContain("other")
      }
      // The same answer for another workspace's file as for a file that was deleted.
      for (const gone of [their, unknown]) {
        const acked = yield* ask("POST", `/uploads/acme/${gone}/ack`, { token: mine.token })
        expect(acked).toMatchObject({ status: 200, json: { acked: true, raced: true } })
      }
      expect(yield* theirs.content(their)).toMatchObject({ status: 200, text: "theirs" })
      for (const token of [undefined, "", "guess", theirs.token, adminToken, `${mine.token}x`]) {
        for (const [method, path] of [
          ["POST", "/uploads/acme"],
          ["GET", "/uploads/acme"],
          ["GET", `/uploads/acme/${id}/content`],
          ["POST", `/uploads/acme/${id}/ack`],
          ["GET", "/uploads/never-was"],
          ["GET", "/uploads/..%2facme"],
          ["GET", "/uploads/acme%00"]
        ] as const) {
          const refused = yield* ask(method, path, { token })
          expect(refused).toMatchObject({
            status: 401,
            headers: { "www-authenticate": "Bearer" },
            json: { error: { tag: "Unauthorized", message: expect.stringContaining("token of this workspace") } }
          })
        }
      }
      expect(yield* mine.content(id)).toMatchObject({ status: 200, text: "mine" })
      expect(yield* ask("GET", "/uploads", { token: mine.token })).toMatchObject({ status: 404 })
      expect((yield* ask("GET", "/uploads/%zz", { token: mine.token })).status).toBeLessThan(500)
      expect(yield* ask("DELETE", `/uploads/acme/${id}`, { token: mine.token })).toMatchObject({ status: 404 })
    })
  )

  it.effect("get safe names and types, whatever the client calls them", () =>
    Effect.gen(function* () {
      const { content, upload } = yield* client()
      const named = (filename: string, type?: string) =>
        Effect.gen(function* () {
          const answer = yield* upload({ filename, type, content: "<script>alert(1)</script>" })
          const [id = ""] = idsOf(answer)
          const { files } = answer.json as { files: ReadonlyArray<{ name: string; mimeType: string }> }
          const { headers } = yield* content(id)
          expect(headers["content-disposition"]).toMatch(`attachment; filename="${files[0]?.name}"`)
          expect(headers["content-security-policy"]).toBe("sandbox")
          expect(headers["x-content-type-options"]).toBe("nosniff")
          expect(headers["content-type"]).toBe(files[0]?.mimeType)
          return [files[0]?.name, files[0]?.mimeType]
        })
      expect(yield* named("../../etc/passwd")).toEqual(["passwd", "text/plain"])
      expect(yield* named("C:\\\\Users\\\\me\\\\evil.exe")).toEqual(["evil.exe", "text/plain"])
      expect(yield* named("报告.pdf")).toEqual(["__.pdf", "text/plain"])
      expect(yield* named("invoice\u202efdp.exe")).toEqual(["invoice_fdp.exe", "text/plain"])
      expect(yield* named('quote\\".txt')).toEqual(["quote_.txt", "text/plain"])
      expect(yield* named("..")).toEqual(["file", "text/plain"])
      expect(yield* named("")).toEqual(["file", "text/plain"])
      expect((yield* named(`${"x".repeat(10_000)}.tar.gz`))[0]).toMatch(/^x{97}\.gz$|^x+\.tar\.gz$/)
      expect(yield* named("page.html", "text/html; charset=utf-8")).toEqual(["page.html", "text/html"])
      expect(yield* named("a", "text/ht\u00a0ml")).toEqual(["a", "application/octet-stream"])
      expect(yield* named("a", "nonsense")).toEqual(["a", "application/octet-stream"])
      expect(yield* named("a", "")).toEqual(["a", "application/octet-stream"])
    })
  )

  it.effect("keep their clients' names, in every script", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const { content, list, upload } = yield* client(workspace("scripts"))
      const disposition = (filename: string) =>
        Effect.gen(function* () {
          const answer = yield* upload({ filename, content: "x" })
          const [id = ""] = idsOf(answer)
          const { files } = answer.json as { files: ReadonlyArray<{ name: string; originalName: string }> }
          const { headers } = yield* content(id)
          return [files[0]?.originalName, files[0]?.name, headers["content-disposition"]]
        })
      expect(yield* disposition("plain.txt")).toEqual(["plain.txt", "plain.txt", 'attachment; filename="plain.txt"'])
      expect(yield* disposition("报告 (1).pdf")).toEqual([
        "报告 (1).pdf",
        "____1_.pdf",
        "attachment; filename=\"____1_.pdf\"; filename*=UTF-8''%E6%8A%A5%E5%91%8A%20%281%29.pdf"
      ])
      expect(yield* disposition("it's 100% *%22naïve%22*;.txt")).toEqual([
        'it\'s 100% *"naïve"*;.txt',
        "it_s_100____naive___.txt",
        "attachment; filename=\"it_s_100____naive___.txt\"; filename*=UTF-8''it%27s%20100%25%20%2A%22na%C3%AFve%22%2A%3B.txt"
      ])
      expect((yield* disposition("../../报告.pdf"))[0]).toBe("报告.pdf")
      expect((yield* list).json).toMatchObject({
        files: [{}, { name: "____1_.pdf", originalName: "报告 (1).pdf" }, {}, {}]
      })
      expect((yield* admin("GET", "/api/v1/uploads/files?limit=1")).json).toMatchObject({
        files: [{ name: "__.pdf", originalName: "报告.pdf" }]
      })
    })
  )

  it.effect("are refused together when one of them is invalid, with the reason", () =>
    Effect.gen(function* () {
      const { list, send, upload } = yield* client(workspace("refused"))
      const good = { content: "good" }
      const refusals: ReadonlyArray<readonly [ReadonlyArray<Part>, string | RegExp]> = [
        [[good, { content: "" }], "File 1: content must not be empty."],
        [
          [good, { name: "note", content: "x" }],
          /^The form has an unexpected field\. Send 1 to 64 files in the field "files"\.$/
        ],
        [[], /^The form has no file\./],
        [Array.from({ length: 65 }, () => good), /^The form has too many files\./]
      ]
      for (const [parts, message] of refusals) {
        const refused = yield* upload(...parts)
        expect(refused.status).toBe(400)
        expect((refused.json as { error: { message: string } }).error.message).toMatch(message)
      }
      const bodies = [
        "",
        "not a form",
        "--",
        form([good]).subarray(0, -10).toString(),
        form([good]).toString().replace("Content-Disposition", "X-Disposition"),
        form([good]).toString().replace("form-data;", "attachment;"),
        form([good]).toString().replace('filename="a.txt"', ""),
        form([good]).toString().replace("\r\nContent-Type", "\r\nnonsense\r\nContent-Type"),
        form([good]).toString().replace("boundary\r\n", "boundaryX\r\n")
      ]
      for (const body of bodies) {
        const refused = yield* send(Buffer.from(body))
        expect(refused).toMatchObject({ status: 400, json: { error: { tag: "BadRequest" } } })
      }
      expect((yield* list).json).toEqual({ files: [] })
    })
  )

  it.effect("arrive in chunks of any size, even without a length", () =>
    Effect.gen(function* () {
      const { send, content } = yield* client()
      const body = form([{ content: "first" }, { filename: "b", content: "\r\n--almost\r\n-" }])
      for (const size of [1, 2, 3, 7, 64]) {
        const pieces = Array.from({ length: Math.ceil(body.length / size) }, (_, n) =>
          body.subarray(n * size, (n + 1) * size)
        )
        const answer = yield* send(pieces)
        expect(answer.status).toBe(201)
        expect((yield* content(idsOf(answer)[1] ?? "")).text).toBe("\r\n--almost\r\n-")
      }
    })
  )
})

describe.each(backends)("files on %s, with settings or jobs", (_, layer) => {
  it.scopedLive("have the subject of their request, and so have their jobs", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      const { path, token } = yield* client()
      const send = (subject: string) =>
        ask("POST", path, { token, body: form([{ content: "hi" }]), headers: { ...formType, subject } })
      expect((yield* send(Buffer.from("kundin:ä").toString("latin1"))).status).toBe(201)
      const { erase } = yield* Storage
      const digest = digestOf("kundin:ä")
      expect(yield* erase(digest, "count")).toBe(1)
      const { jobs } = yield* Effect.flatMap(JobSearch, (search) => search.list({ kind: "arrived" }, { limit: 10 }))
      expect(jobs.map(({ meta }) => meta)).toEqual([{ subjectDigest: digest }])
      const refused = yield* send("x".repeat(513))
      expect(refused).toMatchObject({ status: 400, json: { error: { field: "Subject" } } })
    }).pipe(Effect.provide(layer({ jobKind: Option.some("arrived") })))
  )

  it.scopedLive("have limits per file, per request and per workspace", () =>
    Effect.gen(function* () {
      const { ack, list, upload } = yield* client()
      const refused = yield* upload({ content: "fits" }, { filename: "large.bin", content: "x".repeat(1001) })
      expect(refused).toMatchObject({
        status: 413,
        json: { error: { tag: "UploadTooLarge", filename: "large.bin", max: 1000 } }
      })
      expect((refused.json as { error: { size: number } }).error.size).toBeGreaterThan(1000)
      const three = ["a", "b", "c"].map((filename) => ({ filename, content: "x".repeat(900) }))
      expect(yield* upload(...three)).toMatchObject({
        status: 413,
        json: { error: { tag: "RequestTooLarge", filename: "c", max: 2000 } }
      })
      expect((yield* list).json).toEqual({ files: [] })
      const [id = ""] = idsOf(yield* upload(...three.slice(1)))
      yield* upload(...three.slice(2))
      expect(yield* upload(...three.slice(2))).toMatchObject({
        status: 413,
        json: { error: { tag: "QuotaExceeded", size: 900, max: 3000 } }
      })
      yield* ack(id)
      expect(yield* upload(...three.slice(2))).toMatchObject({ status: 413 })
      yield* Effect.flatMap(Storage, (storage) => storage.sweep(0))
      expect(yield* ack(id)).toMatchObject({ status: 200, json: { acked: true, raced: true } })
      expect(yield* upload(...three.slice(2))).toMatchObject({ status: 201 })
    }).pipe(Effect.provide(layer({ maxFile: 1000, maxRequest: 2000, quota: 3000 })))
  )

  it.scopedLive("become jobs in the same transaction when a kind is set", () =>
    Effect.gen(function* () {
      const { upload } = yield* client()
      const [id = ""] = idsOf(yield* upload({ filename: "naïve.txt", content: "hello" }))
      const { jobs } = yield* Effect.flatMap(JobSearch, (search) => search.list({ kind: "arrived" }, { limit: 10 }))
      expect(jobs).toMatchObject([
        {
          queue: "files",
          version: 2,
          attempts: 3,
          payload: {
            fileId: id,
            workspace: "acme",
            name: "naive.txt",
            originalName: "naïve.txt",
            mimeType: "text/plain",
            size: 5,
            sha256: sha256("hello")
          }
        }
      ])
    }).pipe(Effect.provide(layer({ jobKind: Option.some("arrived") })))
  )

  it.scopedLive("are refused when they should become jobs of an unknown kind", () =>
    Effect.gen(function* () {
      const { list, upload } = yield* client()
      expect(yield* upload({ content: "x" })).toMatchObject({
        status: 503,
        json: { error: { tag: "JobKindMissing", message: expect.stringContaining("UPLOADS_JOB_KIND") } }
      })
      expect((yield* list).json).toEqual({ files: [] })
    }).pipe(Effect.provide(layer({ jobKind: Option.some("never_heard_of") })))
  )
})
