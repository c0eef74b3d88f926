import { randomBytes } from "node:crypto"
import { readFileSync } from "node:fs"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import pg from "pg"
import { boundary, form } from "../http/UploadServer.js"
import { bearing, list, type Service, serve, until, upload } from "../journeys/fixtures/UploadService.js"
import * as RawClient from "../support/RawClient.js"
import { isLong } from "../support/Scale.js"

const mib = 1024 * 1024

/** Peak memory of a process in bytes, as the operating system reports it. */
const peakMemory = (pid: number) =>
  Effect.sync(() => Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024)

const fetchContent = ({ token, url }: Pick<Service, "token" | "url">, id: string) =>
  Effect.promise(async () => {
    const response = await fetch(`${url}/uploads/acme/${id}/content`, { headers: bearing({ token }) })
    return Buffer.from(await response.arrayBuffer())
  })

/** Queries the database directly, not through the service. */
const query = (service: Service, text: string) =>
  Effect.promise(async () => {
    const client = new pg.Client({ connectionString: service.database })
    await client.connect()
    try {
      return (await client.query(text)).rows
    } finally {
      await client.end()
    }
  })

const rows = (service: Service) =>
  Effect.map(
    query(
      service,
      `select (select count(*)::int from nightshift.upload) as uploads,
         (select count(*)::int from nightshift.upload_content) as contents`
    ),
    ([counts]) => counts
  )

describe("a file of 25 MiB", () => {
  it.scopedLive("is uploaded and downloaded without the service's memory growing with it", () =>
    Effect.gen(function* () {
      const service = yield* serve()
      const content = randomBytes(25 * mib)
      // Warm up: code that was never run, and buffers of the pool's connections.
      for (let warm = 0; warm < 3; warm += 1) {
        const { files } = yield* upload(service, [["warm.bin", content.subarray(0, mib)]])
        yield* fetchContent(service, files[0]?.id ?? "")
      }
      const before = yield* peakMemory(service.pid)
      const { files, status } = yield* upload(service, [["large.bin", content]])
      const uploaded = yield* peakMemory(service.pid)
      expect(status).toBe(201)
      const fetched = yield* fetchContent(service, files[0]?.id ?? "")
      const downloaded = yield* peakMemory(service.pid)
      expect(fetched.equals(content)).toBe(true)
      yield* Effect.log(
        `memory grew by ${Math.round((uploaded - before) / mib)} MiB in and ${Math.round((downloaded - uploaded) / mib)} MiB out`
      )
      expect(uploaded - before).toBeLessThan(64 * mib)
      expect(downloaded - uploaded).toBeLessThan(64 * mib)
      const refused = yield* upload(service, [["larger.bin", randomBytes(25 * mib + 1)]])
      expect(refused).toMatchObject({ status: 413, error: { filename: "larger.bin", max: 25 * mib } })
    })
  )
})

if (isLong) {
  describe("sixty-four files of one request", () => {
    const parts = Array.from({ length: 64 }, (_, n) => ({ filename: `f${n}`, content: Buffer.alloc(20_000, n) }))
    const body = form(parts)

    it.scopedLive("become visible together", () =>
      Effect.gen(function* () {
        const service = yield* serve()
        const looks: Array<number> = []
        const looking = yield* Effect.fork(
          Effect.forever(Effect.map(list(service), (files) => looks.push(files.length)))
        )
        const { status } = yield* upload(
          service,
          parts.map(({ content, filename }) => [filename, content] as const)
        )
        expect(status).toBe(201)
        yield* Fiber.interrupt(looking)
        expect(yield* list(service)).toHaveLength(64)
        expect(looks.every((count) => count === 0 || count === 64)).toBe(true)
      })
    )

    it.scopedLive("are all absent when the service is killed with -9 midway, and the leftovers are swept", () =>
      Effect.gen(function* () {
        const service = yield* serve({ UPLOADS_SWEEP_INTERVAL: "200ms" })
        const { hostname, port } = new URL(service.url)
        const raw = yield* RawClient.make(Number(port))
        yield* raw.send(
          `POST /uploads/acme HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${service.token}\r\n` +
            `Content-Type: multipart/form-data; boundary=${boundary}\r\nContent-Length: ${body.length}\r\n\r\n`
        )
        yield* raw.send(body.subarray(0, -100))
        yield* until(rows(service), (counts) => counts.contents === 63)
        yield* service.signal("SIGKILL")
        yield* service.finished
        expect(yield* rows(service)).toEqual({ uploads: 0, contents: 63 })

        const next = { ...service, ...(yield* service.restart) }
        expect(yield* list(next)).toEqual([])
        // Lets the half hour of these leftover drafts pass.
        yield* query(service, "update nightshift.upload_content set draft_until = draft_until - interval '1 day'")
        yield* until(rows(service), (counts) => counts.contents === 0)
        yield* next.said(/sweeper deleted acked=0 expired=0 total=0 leftovers=63/)
      })
    )
  })
}
