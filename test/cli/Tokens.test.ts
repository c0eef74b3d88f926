import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { DateTime, Effect, Option, Redacted } from "effect"
import { DatabaseChoice } from "../../src/cli/DatabaseChoice.js"
import { greetingLine } from "../../src/cli/Serve.js"
import type { BotDeclaration } from "../../src/gateway/config/Declarations.js"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

describe("the admin token", () => {
  it.scopedLive("is reported as missing when a service starts without a way to log in", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const env = { DATABASE_URL: Redacted.value(yield* TestDatabase.migrated) }
      const service = yield* Nightshift.start(["serve", "--port", "0"], { cwd, env })
      yield* service.said(
        /"token":"not set: no one can log in, and the API rejects all requests\. Set NIGHTSHIFT_ADMIN_TOKEN and restart"/
      )
    })
  )

  it.scopedLive("of an embedded service is not reported as missing by doctor", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const doctor = Effect.map(Nightshift.call(["doctor"], { cwd, env: {} }), ({ stdout }) => stdout)
      expect(yield* doctor).toContain("No access token is set")
      mkdirSync(join(cwd, ".nightshift"))
      writeFileSync(join(cwd, ".nightshift", "admin-token"), "sesame\n")
      expect(yield* doctor).not.toContain("No access token is set")
    })
  )
})

describe("the JSON line of a service that has started", () => {
  it("has URLs of hooks that a program can call", () => {
    const bot: BotDeclaration = {
      ...{ slug: "shop", handler: { _tag: "Echo" }, requireAuth: false, async: true, chatOrder: "strict" },
      ...{ onError: "apologize", token: Redacted.make("t"), secrets: [] }
    }
    const started = {
      ...{
        url: "http://127.0.0.1:8080",
        choice: DatabaseChoice.None(),
        served: [],
        made: Option.none(),
        hasToken: true,
        cell: Option.none()
      },
      declared: { bots: [bot], sources: [{ name: "billing", style: "stripe", kind: "paid", secrets: [] }], push: [] }
    } as const
    expect(JSON.parse(greetingLine(started, DateTime.unsafeMake(0)))).toMatchObject({
      hooks: ["http://127.0.0.1:8080/hooks/telegram/shop", "http://127.0.0.1:8080/hooks/billing"]
    })
  })
})
