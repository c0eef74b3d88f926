import { fileURLToPath } from "node:url"
import { expect, layer } from "@effect/vitest"
import { Effect, Redacted, Schedule } from "effect"
import { Browser } from "../support/Browser.js"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

// A browser reads a stream while its server restarts and the process that writes it is killed with -9.

const program = fileURLToPath(new URL("fixtures/stream-writer.mjs", import.meta.url))
const token = "sesame"
const lines = 500

const quick = {
  NIGHTSHIFT_LEASE: "3s",
  NIGHTSHIFT_POD_HEARTBEAT: "500ms",
  QUEUE_HEARTBEAT: "500ms",
  QUEUE_STALE_AFTER: "3s",
  QUEUE_REAPER_INTERVAL: "500ms"
}

interface Seen {
  readonly id: string
  readonly generation: number
  readonly number: number
  readonly value: { readonly line: number; readonly pid: number }
}

/** What the page below has collected. */
interface Reading {
  readonly seen: ReadonlyArray<Seen>
  readonly opened: number
  readonly end: { readonly state: string; readonly generation: number; readonly count: number } | undefined
}

/**
 * Runs in the browser: collects the events of a stream. The browser reconnects after a broken connection, but not after an
 * error response, which a server gives while it starts.
 */
const follow = `(path) => {
  const reading = { seen: [], opened: 0, end: undefined }
  window.reading = reading
  const connect = (from) => {
    const source = new EventSource(path + from, { withCredentials: true })
    source.onopen = () => { reading.opened += 1 }
    source.onmessage = ({ data, lastEventId }) => reading.seen.push({ id: lastEventId, ...JSON.parse(data) })
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, 500, "?after=" + reading.seen.at(-1).id)
    }
    source.addEventListener("end", (event) => {
      source.close()
      reading.end = JSON.parse(event.data)
    })
  }
  connect("")
}`

layer(Browser.layer, { excludeTestServices: true, timeout: "3 minutes" })("a browser that reads a stream", (it) => {
  it.scoped(
    "sees every chunk of the last generation once and in order, across a reconnect and a kill -9 of the writer",
    () =>
      Effect.gen(function* () {
        const cwd = yield* Nightshift.folder
        const env = { ...quick, DATABASE_URL: Redacted.value(yield* TestDatabase.migrated), SHUTDOWN_GRACE: "1s" }
        const serve = (port: string) =>
          Nightshift.start(["serve", "--port", port, "--queues", "none"], {
            cwd,
            env: { ...env, NIGHTSHIFT_ADMIN_TOKEN: token, LOG_FORMAT: "json" }
          })
        const first = yield* serve("0")
        const [, url = ""] = yield* first.said(/"url":"(http:[^"]+)"/)
        const killed = yield* Nightshift.start([], { cwd, env, program })
        yield* killed.said(/writer is ready/)
        const page = yield* Browser.page({})
        const reading = Effect.promise(() => page.evaluate<Reading>("window.reading"))
        const until = (what: string, isThere: (reading: Reading) => boolean) =>
          Effect.repeat(reading, { until: isThere, schedule: Schedule.spaced("50 millis") }).pipe(
            Effect.timeoutFail({ duration: "2 minutes", onTimeout: () => new Error(`the browser saw no ${what}`) })
          )
        yield* Effect.promise(async () => {
          await page.request.post(`${url}/api/v1/session`, { data: { token } })
          await page.goto(`${url}/ui/`)
          const data = { workflow: "print", key: "A", payload: { id: "A" } }
          const headers = { authorization: `Bearer ${token}` }
          expect((await page.request.post(`${url}/api/v1/workflows`, { data, headers })).status()).toBe(201)
          await page.evaluate(`(${follow})("/api/v1/workflows/print%2FA/streams/lines")`)
        })
        yield* until("chunks", ({ seen }) => seen.length > 50)

        yield* first.signal("SIGTERM")
        yield* first.finished
        const second = yield* serve(new URL(url).port)
        yield* second.said(/"url":"/)
        yield* until("second connection", ({ opened }) => opened > 1)
        const { seen } = yield* reading
        yield* until("more chunks", (later) => later.seen.length > seen.length + 50)

        yield* killed.signal("SIGKILL")
        yield* killed.finished
        const next = yield* Nightshift.start([], { cwd, env: { ...env, LINES: String(lines) }, program })
        yield* until("end", ({ end }) => end !== undefined)

        const all = yield* reading
        expect(all.end).toEqual({ state: "done", generation: 2, count: lines })
        const before = all.seen.filter(({ generation }) => generation === 1)
        expect(before.length).toBeGreaterThan(100)
        expect(before.map(({ number }) => number)).toEqual(before.map((_, number) => number))
        expect(new Set(before.map(({ value }) => value.pid))).toEqual(new Set([killed.pid]))
        const wanted = Array.from({ length: lines }, (_, line) => ({
          id: `2-${line}`,
          generation: 2,
          number: line,
          value: { line, pid: next.pid }
        }))
        expect(all.seen.slice(before.length)).toEqual(wanted)
      }),
    240_000
  )
})
