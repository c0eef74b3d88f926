import { inspect } from "node:util"
import * as Cookies from "@effect/platform/Cookies"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Either, Schema } from "effect"
import * as fc from "effect/FastCheck"
import { prefixOf } from "../../src/access/Secrets.js"
import * as BytesText from "../../src/core/BytesText.js"
import * as DurationText from "../../src/core/DurationText.js"
import { JobId, Workspace } from "../../src/core/Ids.js"
import * as Allowance from "../../src/gateway/config/Allowance.js"
import * as YamlText from "../../src/gateway/config/YamlText.js"
import * as SignedSources from "../../src/gateway/SignedSources.js"
import { bearerOf, isSameOrigin } from "../../src/http/access/Credentials.js"
import * as ClientAddress from "../../src/http/ClientAddress.js"
import { parse as parseBody } from "../../src/http/hooks/HookBody.js"
import * as Instant from "../../src/http/Instant.js"
import * as JobsFilter from "../../src/http/jobs/JobsFilter.js"
import * as ContentDisposition from "../../src/http/uploads/ContentDisposition.js"
import { boundaryOf } from "../../src/http/uploads/MultipartParser.js"
import * as UploadContent from "../../src/http/uploads/UploadContent.js"
import { errorShape } from "../../src/queue/search/ErrorShape.js"
import * as CronDescription from "../../src/schedule/CronDescription.js"
import { expressionOf } from "../../src/schedule/ScheduleDefinition.js"
import * as Masking from "../../src/telemetry/Masking.js"
import * as Filename from "../../src/uploads/Filename.js"
import { stripMimeType } from "../../src/uploads/Upload.js"
import { growth, linear, passes } from "../support/Growth.js"
import { type Answer, TestServer } from "./TestServer.js"
import { client, idsOf, layerMemory } from "./UploadServer.js"

const key = Buffer.alloc(32, 7)
const addressOf = ClientAddress.make("127.0.0.0/8, ::1")
const maskText = Masking.makeText(["password", "email"])
const decodeQuery = Schema.decodeUnknownEither(Schema.Struct(JobsFilter.query))
const decodeBody = Schema.decodeUnknownEither(JobsFilter.Body)

const signed =
  (style: "github" | "stripe" | "standard", header: string, rest: Readonly<Record<string, string>> = {}) =>
  (text: string) => {
    const headers = { ...rest, [header]: text }
    SignedSources.preVerify(style, headers, 0)
    SignedSources.verify(style, [key], headers, Buffer.from("{}"), 0)
    SignedSources.deliveryOf(style, headers, {})
  }

/** Every parser of external input, with a typical prefix of its input. */
const parsers: ReadonlyArray<readonly [name: string, read: (text: string) => unknown, begins: string]> = [
  ["Content-Disposition", ContentDisposition.parse, 'form-data; name="files"; filename='],
  ["Content-Type of a form", boundaryOf, "multipart/form-data; boundary="],
  ["Content-Type of a file", stripMimeType, "text/"],
  ["name of a file", Filename.sanitize, "a"],
  ["original name of a file", Filename.original, "a"],
  ["Range", (text) => UploadContent.readRange(text, 1_000), "bytes="],
  ["Authorization", bearerOf, "Bearer "],
  ["Cookie", Cookies.parseHeader, "nightshift_session="],
  ["token of a workspace", prefixOf, "nst_01234567"],
  ["Origin", (origin) => isSameOrigin({ origin, host: "a" }), "https://"],
  ["X-Forwarded-For", (text) => addressOf("127.0.0.1", text), "127.0.0.1, "],
  ["signature of GitHub", signed("github", "x-hub-signature-256"), "sha256="],
  ["signature of Stripe", signed("stripe", "stripe-signature"), "t=0,v1="],
  [
    "signature of Standard",
    signed("standard", "webhook-signature", { "webhook-id": "a", "webhook-timestamp": "0" }),
    "v1,"
  ],
  [
    "timestamp of Standard",
    signed("standard", "webhook-timestamp", { "webhook-id": "a", "webhook-signature": "v1,a" }),
    "1"
  ],
  ["body of a webhook", (text) => parseBody(Buffer.from(text)), '{"update_id":'],
  ["cursor, or id of a job", Schema.decodeUnknownEither(JobId), "0198c0de-"],
  ["name of a workspace", Schema.decodeUnknownEither(Workspace), "a"],
  ["instant", Instant.parse, "2026-01-31T09:00:00."],
  ["duration", DurationText.parse, "1h"],
  ["size", BytesText.parse, "1"],
  ["cron expression", (cron) => expressionOf({ name: "", cron, timezone: "UTC" }), "* * * "],
  ["cron expression in words", (cron) => CronDescription.of(cron, "UTC"), "0 0 1,"],
  ["time zone", (timezone) => expressionOf({ name: "", cron: "* * * * *", timezone }), "Europe/"],
  ["allowed host", Allowance.isRule, "a."],
  [
    "filter in a query",
    (text) => decodeQuery({ queue: text, kind: [text], since: text, payload: text, state: text }),
    "a,"
  ],
  ["filter in a body", (text) => decodeBody({ queue: [text], until: text, text, shape: text }), ""],
  ["error to be masked", (text) => maskText(text, { password: text.slice(0, 9), email: [text] }), 'password: "'],
  ["error to be grouped", errorShape, "0198c0de-0000-7000-"]
]

const units = [
  " ",
  "\t",
  "\n",
  ".",
  "-",
  ",",
  ";",
  ":",
  "=",
  "/",
  '"',
  "\\",
  "'",
  "%",
  "%41",
  "*",
  "a",
  "0",
  "f",
  "A",
  "v1=",
  ",v1=0",
  " v1,",
  "; a=",
  '; a="',
  "a=1; ",
  "*/1,",
  "1-2,",
  "1h",
  "[",
  "{",
  '{"a":',
  "&a ",
  "- ",
  "::",
  "１",
  "…",
  "ﷺ",
  "é",
  "\u0000"
]

const size = 64 * 1024
const filled = (begins: string, unit: string, size: number) => begins + unit.repeat(Math.ceil(size / unit.length))

/** A hundred reads of each byte, each ten times slower than the fastest. */
const maxPasses = 1_000

/** What a parser returned, as text; two errors are equal if they say the same. */
const shown = (value: unknown): string => inspect(Either.isEither(value) ? Either.mapLeft(value, String) : value)

describe.each(parsers)("the parser of a %s", (_, read, begins) => {
  it("never throws, and reads the same text in the same way again", () => {
    const whole = shown(read(begins))
    const mixed = fc.array(fc.oneof(fc.constantFrom(...units, begins), fc.string({ unit: "binary" })), {
      maxLength: 20
    })
    fc.assert(
      fc.property(mixed, fc.boolean(), (pieces, isBegun) => {
        const text = `${isBegun ? begins : ""}${pieces.join("")}`
        const once = shown(read(text))
        // A parser with state, such as a pattern with the flag g, reads differently after another text.
        expect(shown(read(begins))).toBe(whole)
        expect(shown(read(text))).toBe(once)
      }),
      // Names that every object has.
      { numRuns: 100, examples: ["__proto__", "constructor", "toString"].map((name) => [[name], false]) }
    )
  })

  it("reads each byte of 64 KiB a bounded number of times", () => {
    for (const unit of units) {
      for (const last of ["", "!"]) {
        const text = filled(begins, unit, size) + last
        const isFast = passes(() => void read(text), maxPasses) < maxPasses
        // A constant slowdown is fine; time that grows faster than the input is not.
        const grown = isFast ? 1 : growth((bytes) => void read(filled(begins, unit, bytes) + last), size / 8)
        expect(grown, `${JSON.stringify(begins)} and many ${JSON.stringify(unit)}`).toBeLessThan(linear)
      }
    }
  })
})

/** An operator writes this file, and it is read at start and on SIGHUP: parsing may be slow, and must not throw. */
describe("the parser of the bots file", () => {
  it("never throws", () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.constantFrom(...units, "bots:\n  a: "), fc.string())), (pieces) => {
        const text = pieces.join("")
        expect(shown(YamlText.parse(text))).toBe(shown(YamlText.parse(text)))
      }),
      { numRuns: 100 }
    )
  })
})

/** Valid header text. */
const headerText = fc
  .array(fc.oneof(fc.constantFrom(...units, "bytes=", "Bearer ", "nightshift_session="), fc.string()), {
    maxLength: 12
  })
  .map((pieces) => pieces.join("").replace(/[^\t\u0020-\u007e\u0080-\u00ff]/g, "?"))

/** A refusal of the API is JSON that says what was wrong, and never a fault of the server. */
const isAnswered = ({ headers, json, status }: Answer) => {
  expect(status).toBeGreaterThanOrEqual(200)
  expect(status).toBeLessThan(500)
  if (status < 400) return
  expect(headers["content-type"]).toContain("application/json")
  expect(json).toEqual({ error: expect.objectContaining({ tag: expect.any(String), message: expect.any(String) }) })
}

describe("a server", () => {
  it.scopedLive("answers every header and every query with success or an error of the request", () =>
    Effect.gen(function* () {
      const { admin, ask } = yield* TestServer
      const { content, upload } = yield* client()
      const [id = ""] = idsOf(yield* upload({ content: "0123456789" }))
      const names = ["range", "if-range", "if-none-match", "cookie", "authorization", "x-forwarded-for", "x-reason"]
      const samples = fc.sample(fc.tuple(fc.constantFrom(...names), headerText), { numRuns: 50, seed: 7 })
      for (const [name, value] of samples) {
        isAnswered(yield* content(id, { [name]: value }))
        isAnswered(yield* ask("GET", "/api/v1/session", { headers: { [name]: value } }))
      }
      const parameters = ["cursor", "queue", "kind", "state", "since", "payload", "dedupe", "text", "shape", "limit"]
      const queries = fc.sample(fc.tuple(fc.constantFrom(...parameters), fc.string()), {
        numRuns: 50,
        seed: 7
      })
      for (const [name, value] of queries) {
        const text = `${name}=${encodeURIComponent(value)}`
        isAnswered(yield* admin("GET", `/api/v1/jobs?${text}`))
      }
    }).pipe(Effect.provide(layerMemory()))
  )
})
