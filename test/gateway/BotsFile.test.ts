import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Duration, Effect, type Layer, Redacted } from "effect"
import * as BotsFile from "../../src/gateway/config/BotsFile.js"
import type { BotDeclaration } from "../../src/gateway/config/Declarations.js"
import { GatewayConfig } from "../../src/gateway/config/GatewayConfig.js"
import * as Nightshift from "../support/Nightshift.js"

const credentials = {
  BOT_HELPER_TOKEN: "1:helper-token",
  BOT_HELPER_SECRET: "helper-secret",
  BOT_DESK_TOKEN: "2:desk-token",
  BOT_DESK_SECRET: "new-desk-secret, old-desk-secret",
  AUTH_SECRET: "open-sesame"
}

const facts = { database: true, authSecret: true, kinds: new Set(["resize", "report"]) }

const read = (text: string, given: Partial<typeof facts> = {}, env: Record<string, string> = credentials) =>
  BotsFile.declarationsIn("bots.yaml", text, { ...facts, ...given }).pipe(
    Effect.withConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(env))))
  )

/** Problems of an invalid file. */
const problems = (text: string, given: Partial<typeof facts> = {}, env?: Record<string, string>) =>
  Effect.map(Effect.flip(read(text, given, env)), (error) =>
    error instanceof BotsFile.BotsFileInvalid ? error.problems : [String(error)]
  )

const one = (body: string) => `bots:\n  helper:\n${body.replace(/^/gm, "    ")}`

describe("a bots file", () => {
  it.effect("declares each bot with its defaults, and reads secrets from the environment", () =>
    Effect.gen(function* () {
      const { bots } = yield* read(`
        bots:
          helper:
            handler: http
            http: { url: "https://example.org/hook", timeout: 7s }
            async: true
            chatOrder: strict
          desk: { handler: auth, requireAuth: true }`)
      expect(bots).toMatchObject([
        { slug: "helper", requireAuth: true, async: true, chatOrder: "strict", onError: "apologize" },
        { slug: "desk", handler: { _tag: "Auth" }, requireAuth: false, async: false, chatOrder: "serial" }
      ])
      const [helper, desk] = bots
      expect(helper?.handler).toMatchObject({ _tag: "Http", timeout: Duration.seconds(7), redirects: 0 })
      expect(helper === undefined ? "" : Redacted.value(helper.token)).toBe("1:helper-token")
      expect(desk?.secrets.map(Redacted.value)).toEqual(["new-desk-secret", "old-desk-secret"])
      expect(JSON.stringify(bots)).not.toMatch(/r-token|k-token|sesame|-secret/)
    })
  )

  it.effect("may set the attempts and delays of an async bot's jobs", () =>
    Effect.gen(function* () {
      const { bots } = yield* read(
        one("handler: echo\nrequireAuth: false\nasync: true\nattempts: 3\nbackoff: [5s, 2m]")
      )
      expect(bots[0]?.attempts).toBe(3)
      const delays = (declared: ReadonlyArray<BotDeclaration>) =>
        [1, 2, 3].map((attempt) => Duration.toSeconds(declared[0]?.backoff?.(attempt, 0.5) ?? 0))
      expect(delays(bots)).toEqual([5, 120, 120])
      const others = { "7s": [7, 7, 7], "{ base: 10s, max: 1m }": [10, 20, 40] }
      for (const [backoff, expected] of Object.entries(others)) {
        const declared = yield* read(one(`handler: echo\nrequireAuth: false\nasync: true\nbackoff: ${backoff}`))
        expect(delays(declared.bots)).toEqual(expected)
      }
      expect(
        yield* problems(one("handler: echo\nrequireAuth: false\nattempts: 0\nbackoff: [5]\nretry: { attempts: 3 }"))
      ).toEqual([
        expect.stringContaining("bots.helper.retry: is not a known key"),
        expect.stringContaining("bots.helper.attempts: the bot helper is not async"),
        expect.stringContaining("bots.helper.backoff: the bot helper is not async"),
        expect.stringContaining("bots.helper.attempts: expected a whole number from 1 to 1000, got 0"),
        expect.stringContaining("bots.helper.backoff: expected a duration like 30s, a list")
      ])
      for (const wrong of ["[]", "{ base: 10s }", "{ base: 10s, max: 1h, jitter: 1 }", "31d"])
        expect(yield* problems(one(`handler: echo\nrequireAuth: false\nasync: true\nbackoff: ${wrong}`))).toEqual([
          expect.stringContaining("bots.helper.backoff: expected a duration like 30s, a list")
        ])
    })
  )

  it.effect("may be empty and may declare no bots", () =>
    Effect.gen(function* () {
      for (const text of ["", "# nothing yet", "bots:", "bots: {}\nsources: {}"]) {
        expect(yield* read(text)).toEqual({ bots: [], sources: [], push: [] })
      }
    })
  )

  it.effect("is refused with every problem at once, each with its path and the expected value", () =>
    Effect.gen(function* () {
      const found = yield* problems(`
        bots:
          helper: { handler: htpp, requireAuth: maybe, asnyc: true }
          desk: { handler: http, http: { url: "ftp://x", timeout: 45s, retries: 3 }, chatOrder: chronological }
          link: { handler: http, http: { url: "https://me:p@ss@example.org/hook" }, requireAuth: false }
          Big_Bot: { handler: echo }
          list: [echo]
        source: {}`)
      expect(found).toEqual([
        "source: is not a known key; did you mean sources?",
        "bots.helper.asnyc: is not a known key; did you mean async?",
        'bots.helper.handler: expected echo, http, auth or a kind of the app (resize, report), got "htpp"; did you mean http?',
        'bots.helper.requireAuth: expected true or false, got "maybe"',
        "bots.desk.http.retries: is not a known key; known keys: url, timeout, redirects",
        'bots.desk.http.url: expected an http or https URL without credentials, got "ftp://x"',
        'bots.desk.http.timeout: expected a duration like 5s, at most 30s, got "45s"',
        'bots.desk.chatOrder: expected one of none, serial, strict, got "chronological"',
        'bots.link.http.url: expected an http or https URL without credentials, got "https://…@example.org/hook"',
        "bots.link: set BOT_LINK_TOKEN to the token that BotFather gave the bot",
        "bots.link: set BOT_LINK_SECRET to the secret that Telegram sends with its updates",
        'bots.Big_Bot: "Big_Bot" is not a valid bot name: use 1 to 64 lower-case letters, digits and -',
        "bots.Big_Bot: set BOT_BIG_BOT_TOKEN to the token that BotFather gave the bot",
        "bots.Big_Bot: set BOT_BIG_BOT_SECRET to the secret that Telegram sends with its updates",
        'bots.list: expected an object with handler, http, requireAuth, async, chatOrder, onError, updates, attempts, backoff, got ["echo"]',
        "bots.list.handler: expected echo, http, auth or a kind of the app (resize, report), got nothing",
        "bots.list: set BOT_LIST_TOKEN to the token that BotFather gave the bot",
        "bots.list: set BOT_LIST_SECRET to the secret that Telegram sends with its updates"
      ])
    })
  )

  it.effect("is refused for an async bot without a database, naming the bot and both fixes", () =>
    Effect.gen(function* () {
      expect(yield* problems(one("handler: echo\nasync: true"), { database: false })).toEqual([
        "bots.helper.async: the bot helper is async, which requires a database: set DATABASE_URL, start with --embedded, or set async: false"
      ])
      expect(yield* problems(one("handler: resize"), { database: false })).toEqual([
        expect.stringMatching(/^bots.helper.handler: the bot runs the kind resize, which requires a database/)
      ])
    })
  )

  it.effect("is refused when users must sign in and no code is set", () =>
    Effect.gen(function* () {
      const authSecret = false
      expect(yield* problems(one("handler: echo"), { authSecret })).toEqual([
        expect.stringMatching(/^bots.helper.requireAuth: the bot helper .* requires AUTH_SECRET: set it, or set/)
      ])
      expect(yield* problems(one("handler: auth"), { authSecret })).toEqual([
        expect.stringMatching(/^bots.helper.handler: the bot helper .* requires AUTH_SECRET: set it, or choose/)
      ])
      expect((yield* read(one("handler: echo\nrequireAuth: false"), { authSecret })).bots).toHaveLength(1)
    })
  )

  it.effect("is refused for an async bot that signs users in: their codes would be stored", () =>
    Effect.gen(function* () {
      expect(yield* problems(one("handler: auth\nasync: true"))).toEqual([expect.stringContaining("job table")])
    })
  )

  it.effect("is refused for a missing or invalid token or secret, and shows neither", () =>
    Effect.gen(function* () {
      const text = one("handler: echo")
      expect(yield* problems(text, {}, { BOT_HELPER_TOKEN: " ", BOT_HELPER_SECRET: "" })).toHaveLength(2)
      const odd = yield* problems(text, {}, { BOT_HELPER_TOKEN: "1:a/../hush", BOT_HELPER_SECRET: "hush hush" })
      expect(odd).toHaveLength(2)
      expect(odd.join()).not.toContain("hush")
      expect(yield* problems(text, {}, { ...credentials, BOT_HELPER_SECRET: "a,b,c" })).toEqual([
        expect.stringContaining("at most two secrets")
      ])
    })
  )

  it.effect("is refused when two names lead to one variable", () =>
    Effect.gen(function* () {
      const found = yield* problems("bots: { a-b: { handler: echo }, a_b: { handler: echo } }")
      expect(found).toContain("bots: two names map to the environment variable BOT_A_B_TOKEN: rename one of them")
    })
  )

  it.effect("is refused for an async bot whose name is too long for a queue", () =>
    Effect.gen(function* () {
      const slug = "x".repeat(61)
      const env = { [`BOT_${slug.toUpperCase()}_TOKEN`]: "1", [`BOT_${slug.toUpperCase()}_SECRET`]: "1" }
      expect(yield* problems(`bots: { ${slug}: { handler: echo, async: true } }`, {}, env)).toEqual([
        expect.stringContaining("at most 60 characters")
      ])
    })
  )

  it.effect("declares sources whose secrets must fit their style", () =>
    Effect.gen(function* () {
      const text = `sources: { ci: { style: github, kind: build }, pay: { style: standard, kind: paid } }`
      const secret = `whsec_${Buffer.alloc(24, 7).toString("base64")}`
      const env = { SOURCE_CI_SECRET: "any", SOURCE_PAY_SECRET: secret }
      expect((yield* read(text, {}, env)).sources).toMatchObject([
        { name: "ci", style: "github", kind: "build" },
        { name: "pay", style: "standard", kind: "paid" }
      ])
      expect(yield* problems(text, {}, { ...env, SOURCE_PAY_SECRET: "short" })).toEqual([
        expect.stringMatching(/^sources.pay: SOURCE_PAY_SECRET must be whsec_/)
      ])
      const bad = yield* problems(`sources: { telegram: { style: gitub }, ci: { style: stripe, kind: 7 } }`, {
        database: false
      })
      expect(bad).toHaveLength(8)
    })
  )
})

describe("invalid YAML", () => {
  it.effect("is refused with the line", () =>
    Effect.gen(function* () {
      expect(yield* problems("bots:\n  helper: {\n")).toEqual([expect.stringMatching(/^line 3, column 1: /)])
      expect(yield* problems("bots: {}\nbots: {}")).toEqual([expect.stringMatching(/^line 2.*unique/)])
      expect(yield* problems("bots: !!js/function 'x'")).toEqual([expect.stringMatching(/^line 1.*tag/)])
      expect(yield* problems("[1]")).toEqual([expect.stringMatching(/^the file: expected an object/)])
      expect(yield* problems("bots: 7")).toEqual([expect.stringMatching(/^bots: expected an object/)])
    })
  )

  it.effect("cannot exhaust the process with aliases, depth or length", () =>
    Effect.gen(function* () {
      const bomb = Array.from(
        { length: 20 },
        (_, level) =>
          `a${level}: &a${level} [${
            level === 0
              ? "x"
              : Array(10)
                  .fill(`*a${level - 1}`)
                  .join(",")
          }]`
      ).join("\n")
      expect((yield* problems(bomb))[0]).toContain("aliases are not supported")
      expect((yield* problems("[".repeat(20_000))).length).toBeLessThanOrEqual(20)
      expect((yield* problems(`bots: ${"{a: ".repeat(10_000)}`)).length).toBeLessThanOrEqual(20)
    })
  )
})

describe("the location of the bots file", () => {
  const load = (env: Record<string, string>) =>
    BotsFile.load({ database: true, kinds: undefined }).pipe(
      Effect.provide(GatewayConfig.layer as Layer.Layer<GatewayConfig>),
      Effect.withConfigProvider(ConfigProvider.fromMap(new Map(Object.entries({ ...credentials, ...env }))))
    )

  it.scoped("is named by NIGHTSHIFT_BOTS, and must be an existing file of limited size", () =>
    Effect.gen(function* () {
      const folder = yield* Nightshift.folder
      const at = (name: string) => ({ NIGHTSHIFT_BOTS: join(folder, name) })
      writeFileSync(join(folder, "good.yaml"), one("handler: echo"))
      writeFileSync(join(folder, "long.yaml"), "#".repeat(300_000))
      mkdirSync(join(folder, "folder.yaml"))
      expect((yield* load(at("good.yaml"))).bots).toHaveLength(1)
      expect((yield* Effect.flip(load(at("none.yaml")))).message).toMatch(
        /none.yaml has one problem:\n .*does not exist/
      )
      expect((yield* Effect.flip(load(at("long.yaml")))).message).toMatch(/larger than 262144 bytes/)
      expect((yield* Effect.flip(load(at("folder.yaml")))).message).toMatch(/cannot be read/)
      expect((yield* Effect.flip(load({ NIGHTSHIFT_BOTS: "/dev/zero" }))).message).toMatch(/not a regular file/)
    })
  )

  it.effect("is empty without that setting when there is no bots.yaml", () =>
    Effect.map(load({}), (declared) => expect(declared).toEqual({ bots: [], sources: [], push: [] }))
  )
})
