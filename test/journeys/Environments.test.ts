import { mkdirSync, readFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join, normalize } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { Browser } from "../support/Browser.js"
import * as Nightshift from "../support/Nightshift.js"
import { below, gone } from "../support/ProcessFamily.js"
import { isLong } from "../support/Scale.js"

/** Variables in which machines and shells differ. Each case starts with only PATH set. */
const environments: ReadonlyArray<{ readonly name: string; readonly env: Readonly<Record<string, string>> }> = [
  { name: "no LANG, and a home that does not exist", env: { HOME: "/nonexistent" } },
  { name: "LANGUAGE=en_US, in Apia", env: { LANG: "en_US.UTF-8", LANGUAGE: "en_US", TZ: "Pacific/Apia" } },
  ...(isLong
    ? [
        { name: "LANG=C", env: { LANG: "C" } },
        { name: "a German locale, in CI", env: { LANG: "de_DE.UTF-8", LC_ALL: "de_DE.UTF-8", CI: "true" } },
        { name: "LANG=C.UTF-8", env: { LANG: "C.UTF-8" } },
        { name: "LANG=POSIX", env: { LANG: "POSIX", LC_ALL: "POSIX" } }
      ]
    : [])
]

const types: Readonly<Record<string, string>> = { html: "text/html", js: "text/javascript", css: "text/css" }

/** Serves the built Mission Control; every API request gets 401. */
const pages = Effect.acquireRelease(
  Effect.async<ReturnType<typeof createServer>>((resume) => {
    const ui = join(Nightshift.root, "dist", "ui")
    const server = createServer((request, response) => {
      const path = new URL(request.url ?? "/", "http://localhost").pathname
      if (!path.startsWith("/ui/"))
        return void response.writeHead(401, { "content-type": "application/json" }).end("{}")
      const file = path === "/ui/" ? "index.html" : normalize(path.slice("/ui/".length))
      response.setHeader("content-type", types[file.split(".").at(-1) ?? ""] ?? "application/octet-stream")
      response.end(readFileSync(join(ui, file)))
    })
    server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
  }),
  (server) =>
    Effect.async<void>((resume) => {
      server.close(() => resume(Effect.void))
      server.closeAllConnections()
    })
).pipe(Effect.map((server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}/ui/`))

/** The first page of Mission Control in a fresh browser, and the errors on it. */
const firstSight = (url: string) =>
  Effect.gen(function* () {
    const page = yield* Browser.page()
    const problems: Array<string> = []
    page.on("pageerror", (error) => problems.push(error.message))
    yield* Effect.promise(async () => {
      await page.goto(url)
      await page.getByLabel("Token").fill("x")
    })
    return { language: yield* Effect.promise(() => page.evaluate<string>("navigator.language")), problems }
  }).pipe(Effect.scoped, Effect.provide(Browser.layer))

describe.each(environments)("with $name", ({ env }) => {
  it.scopedLive("Mission Control opens in the tests' browser", () =>
    Effect.gen(function* () {
      const url = yield* pages
      yield* Nightshift.disguise({ cwd: Nightshift.root, env })
      expect(yield* firstSight(url)).toEqual({ language: "en-US", problems: [] })
    })
  )

  it.scopedLive("a command runs in a folder whose name has a space", () =>
    Effect.gen(function* () {
      const cwd = join(yield* Nightshift.folder, "my jobs é")
      mkdirSync(cwd)
      const { code, stderr, stdout } = yield* Nightshift.run(["config", "--json"], { cwd, env })
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" })
      expect(JSON.parse(stdout)).toContainEqual(expect.objectContaining({ key: "PORT", source: "default" }))
    })
  )

  if (isLong) {
    it.scopedLive("the service runs on its embedded PostgreSQL and shows its pages", () =>
      Effect.gen(function* () {
        const cwd = join(yield* Nightshift.folder, "my jobs é")
        mkdirSync(cwd)
        const running = yield* Nightshift.start(["serve", "--embedded", "--port", "0"], { cwd, env })
        const [, url = ""] = yield* running.said(/url +(http:\S+)/)
        const family = yield* below(running.pid)
        yield* Effect.scoped(
          Effect.gen(function* () {
            yield* Nightshift.disguise({ cwd: Nightshift.root, env })
            expect(yield* firstSight(`${url}/ui/`)).toEqual({ language: "en-US", problems: [] })
          })
        )
        yield* running.signal("SIGTERM")
        expect(yield* running.finished).toMatchObject({ code: 0 })
        yield* gone(family)
      })
    )
  }
})
