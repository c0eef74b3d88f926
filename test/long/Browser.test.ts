import { createServer } from "node:http"
import { assert, describe, it, layer } from "@effect/vitest"
import { Cause, Effect, Exit } from "effect"
import { Browser } from "../support/Browser.js"

const html = `<!doctype html>
<title>Clock-in</title>
<style>
  body { font: 24px sans-serif; background: white; color: black }
  @media (prefers-color-scheme: dark) { body { background: black; color: white } }
</style>
<h1>Night shift</h1>
<button type="button">Clock in</button>
<p role="status">Nobody is here.</p>
<script nonce="good">
  document.querySelector("button").addEventListener("click", () => {
    document.querySelector("p").textContent = "One lamp is lit."
  })
</script>
<script>document.title = "Broken into"</script>`

/** Serves a page whose policy allows only its own script; returns the url. */
const servePage = Effect.acquireRelease(
  Effect.async<ReturnType<typeof createServer>>((resume) => {
    const server = createServer((_, response) => {
      response.writeHead(200, {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": "script-src 'nonce-good'"
      })
      response.end(html)
    })
    server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
  }),
  (server) =>
    Effect.async<void>((resume) => {
      server.close(() => resume(Effect.void))
      server.closeAllConnections()
    })
).pipe(
  Effect.map((server) => {
    const address = server.address()
    return `http://127.0.0.1:${address !== null && typeof address === "object" ? address.port : ""}/`
  })
)

layer(Browser.layer, { timeout: "3 minutes" })("a page in a real browser", (it) => {
  it.scoped("loads, and its button changes its text", () =>
    Effect.gen(function* () {
      const url = yield* servePage
      const page = yield* Browser.page()
      yield* Effect.promise(() => page.goto(url))
      assert.strictEqual(yield* Effect.promise(() => page.getByRole("status").textContent()), "Nobody is here.")
      yield* Effect.promise(() => page.getByRole("button", { name: "Clock in" }).click())
      assert.strictEqual(yield* Effect.promise(() => page.getByRole("status").textContent()), "One lamp is lit.")
    })
  )

  it.scoped("is held to its content security policy", () =>
    Effect.gen(function* () {
      const url = yield* servePage
      const page = yield* Browser.page()
      yield* Effect.promise(() => page.goto(url))
      assert.strictEqual(yield* Effect.promise(() => page.title()), "Clock-in")
    })
  )

  it.scoped("is painted with its text", () =>
    Effect.gen(function* () {
      const url = yield* servePage
      const page = yield* Browser.page({ viewport: { width: 600, height: 400 } })
      yield* Effect.promise(() => page.goto(url))
      const written = yield* Effect.promise(() => page.getByRole("heading").screenshot())
      assert.strictEqual(written.subarray(1, 4).toString("latin1"), "PNG")
      // Without a font no text is drawn, and the screenshot is a fraction of this size.
      yield* Effect.promise(() => page.addStyleTag({ content: "h1 { color: white }" }))
      const blank = yield* Effect.promise(() => page.getByRole("heading").screenshot())
      assert.isAbove(written.length, 2 * blank.length)
    })
  )

  it.scoped("sees the requested colour scheme", () =>
    Effect.gen(function* () {
      const url = yield* servePage
      const dark = yield* Browser.page({ colorScheme: "dark" })
      const light = yield* Browser.page({ colorScheme: "light" })
      const prefersDark = "matchMedia('(prefers-color-scheme: dark)').matches"
      yield* Effect.promise(() => Promise.all([dark.goto(url), light.goto(url)]))
      assert.isTrue(yield* Effect.promise(() => dark.evaluate<boolean>(prefersDark)))
      assert.isFalse(yield* Effect.promise(() => light.evaluate<boolean>(prefersDark)))
    })
  )

  it.scoped("shares no cookies with the page of another test", () =>
    Effect.gen(function* () {
      const url = yield* servePage
      const mine = yield* Browser.page()
      const other = yield* Browser.page()
      yield* Effect.promise(() => Promise.all([mine.goto(url), other.goto(url)]))
      yield* Effect.promise(() => mine.evaluate("document.cookie = 'lamp=lit'"))
      assert.strictEqual(yield* Effect.promise(() => other.evaluate<string>("document.cookie")), "")
    })
  )
})

describe("a browser that dies", () => {
  // Ends the whole browser, not only the page. The command itself never gets an answer.
  const crash = Effect.flatMap(Browser.page(), (page) =>
    Effect.promise(async () => {
      const session = await page.context().browser()?.newBrowserCDPSession()
      await session?.send("Browser.crash").catch(() => {})
    })
  )

  it.scopedLive(
    "fails the test that used it, with its signal, and is restarted once",
    () =>
      Effect.gen(function* () {
        const first = yield* Effect.exit(Effect.scoped(crash))
        assert.isTrue(Exit.isFailure(first))
        assert.match(String(Exit.isFailure(first) && Cause.squash(first.cause)), /Chromium died \(signal SIG[A-Z]+\)/)

        const url = yield* servePage
        const title = yield* Browser.page().pipe(
          Effect.tap((page) => Effect.promise(() => page.goto(url))),
          Effect.flatMap((page) => Effect.promise(() => page.title())),
          Effect.scoped
        )
        assert.strictEqual(title, "Clock-in")

        yield* Effect.exit(Effect.scoped(crash))
        const third = yield* Effect.exit(Effect.scoped(Browser.page()))
        assert.match(String(Exit.isFailure(third) && Cause.squash(third.cause)), /Chromium died/)
      }).pipe(Effect.provide(Browser.layer)),
    60_000
  )
})
