import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Duration, Effect, Redacted } from "effect"
import { changedPushes } from "../../src/gateway/Bots.js"
import * as BotsFile from "../../src/gateway/config/BotsFile.js"
import * as PushJobs from "../../src/gateway/push/PushJobs.js"
import { secretOf } from "./PushEndpoint.js"

const facts = { database: true, authSecret: true, kinds: new Set(["report"]) }

const read = (text: string, env: Record<string, string> = {}, given: Partial<typeof facts> = {}) =>
  BotsFile.declarationsIn("bots.yaml", text, { ...facts, ...given }).pipe(
    Effect.withConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(env))))
  )

const problems = (...given: Parameters<typeof read>) =>
  Effect.map(Effect.flip(read(...given)), (error) => (error instanceof BotsFile.BotsFileInvalid ? error.problems : []))

describe("kinds that the file sends to a URL", () => {
  it.effect("have their settings, and their secrets from the environment", () =>
    Effect.gen(function* () {
      const text = `
        push:
          images.resize:
            { url: "https://f.example.org/jobs", queue: images, attempts: 8, timeout: 30s, backoff: [5s, 1m], throttles: key }
          mail: { url: "https://f.example.org/jobs" }`
      const { push } = yield* read(text, {
        PUSH_IMAGES_RESIZE_SECRET: `${secretOf("new")}, ${secretOf("old")}`,
        PUSH_MAIL_SECRET: secretOf("m")
      })
      expect(push.map(({ secrets }) => secrets.map(Redacted.value))).toEqual([
        [secretOf("new"), secretOf("old")],
        [secretOf("m")]
      ])
      const [resize, mail] = PushJobs.handlers(push).map(({ kind }) => kind)
      expect(resize).toMatchObject({ name: "images.resize", queue: "images", routed: false, attempts: 8 })
      expect(resize?.timeout).toEqual(Duration.seconds(30))
      expect(Duration.toSeconds(resize?.backoff?.(2, 0) ?? 0)).toBe(60)
      expect(mail).toMatchObject({ name: "mail", queue: "default", routed: true, attempts: 5 })
      expect(mail?.timeout).toEqual(Duration.seconds(60))
    })
  )

  it.effect("are refused with all problems at once, and without secrets", () =>
    Effect.gen(function* () {
      const text = `
        push:
          report: { url: "ftp://example.org/", queue: "two words", throttles: all, retries: 3 }
          plain: {}`
      const env = { PUSH_REPORT_SECRET: "hunter2" }
      expect(yield* problems(text, env)).toEqual([
        "push.report.retries: is not a known key; known keys: url, queue, attempts, timeout, backoff, throttles",
        "push.report: the app has a handler for this kind: remove one of them, or rename the kind",
        "push.report: PUSH_REPORT_SECRET must be whsec_ followed by 24 to 64 bytes in base64, as Standard Webhooks requires",
        'push.report.url: expected an http or https URL without credentials, got "ftp://example.org/"',
        'push.report.queue: expected a queue, whose name must be 1 to 64 letters, digits, _, . or -, but not "." or "..", got "two words"',
        'push.report.throttles: expected one of queue, key, job, got "all"',
        "push.plain: set PUSH_PLAIN_SECRET to the secret that signs the requests",
        "push.plain.url: is missing; expected an http or https URL without credentials"
      ])
      expect(
        yield* problems("push: { a: { url: 'https://x.org' } }", { PUSH_A_SECRET: secretOf("a") }, { database: false })
      ).toEqual(["push.a: jobs require a database: set DATABASE_URL, start with --embedded, or remove the kind"])
      const same = "push: { a.b: { url: 'https://x.org' }, a-b: { url: 'https://x.org' } }"
      expect(yield* problems(same, { PUSH_A_B_SECRET: secretOf("a") })).toContain(
        "bots: two names map to the environment variable PUSH_A_B_SECRET: rename one of them"
      )
    })
  )

  it.effect("need a restart when they change", () =>
    Effect.gen(function* () {
      const declared = (settings: string) =>
        read(`push: { a: { url: "https://x.org/", ${settings} } }`, { PUSH_A_SECRET: secretOf("a") })
      const before = yield* declared("backoff: 5s")
      expect(changedPushes(before, yield* declared("backoff: 5s"))).toEqual([])
      for (const other of [yield* declared("backoff: 6s"), yield* declared("queue: q"), yield* read("")])
        expect(changedPushes(before, other)).toEqual([
          "push.a: the kind has changed since this process started; restart the process to apply it"
        ])
    })
  )
})
