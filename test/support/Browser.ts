import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Context, Data, Effect, Layer, type Scope } from "effect"
import { chromium, type Page } from "playwright-core"
import { findChromium } from "../../scripts/chromium.mjs"

/** No browser could be started; the reason says what to do about it. */
export class BrowserUnavailable extends Data.TaggedError("BrowserUnavailable")<{ readonly reason: string }> {
  override get message() {
    return this.reason
  }
}

export interface PageOptions {
  readonly viewport?: { readonly width: number; readonly height: number }
  readonly colorScheme?: "light" | "dark"
}

// Playwright brings the rest: headless, no sandbox, a profile of its own, no calls home. Hinting differs by machine.
const flags = ["--disable-gpu", "--disable-quic", "--font-render-hinting=none"]

const unavailable = (cause: unknown) =>
  new BrowserUnavailable({ reason: cause instanceof Error ? cause.message : String(cause) })

const find = Effect.gen(function* () {
  const found = yield* Effect.try({ try: findChromium, catch: unavailable })
  return yield* found === undefined
    ? new BrowserUnavailable({ reason: "No browser is prepared: run node scripts/prepare-browser.mjs" })
    : Effect.succeed(found)
})

const temporaryHome = Effect.acquireRelease(
  Effect.promise(() => mkdtemp(join(tmpdir(), "nightshift-browser-"))),
  (home) => Effect.promise(() => rm(home, { recursive: true, force: true }))
)

const launch = Effect.gen(function* () {
  const { env, executable } = yield* find
  // The user's own home may be missing or not writable.
  const home = yield* temporaryHome
  return yield* Effect.acquireRelease(
    Effect.tryPromise({
      try: () =>
        chromium.launch({
          executablePath: executable,
          args: flags,
          env: { ...process.env, ...env, XDG_CACHE_HOME: home, XDG_CONFIG_HOME: home }
        }),
      catch: unavailable
    }),
    (browser) => Effect.promise(() => browser.close())
  )
})

/** A real Chromium. Provide its layer once per test file. */
export class Browser extends Context.Tag("nightshift/test/support/Browser")<
  Browser,
  {
    /** A page that shares nothing with other pages; it closes with the Scope. */
    readonly page: (options?: PageOptions) => Effect.Effect<Page, never, Scope.Scope>
  }
>() {
  static readonly page = (options?: PageOptions): Effect.Effect<Page, never, Browser | Scope.Scope> =>
    Effect.flatMap(Browser, (browser) => browser.page(options))

  static readonly layer: Layer.Layer<Browser, BrowserUnavailable> = Layer.scoped(
    Browser,
    Effect.map(launch, (browser) => ({
      page: (options) =>
        Effect.acquireRelease(
          Effect.promise(() => browser.newContext({ viewport: { width: 1280, height: 800 }, ...options })),
          (context) => Effect.promise(() => context.close())
        ).pipe(
          // Shorter than a test may take, so that the failure names what was waited for.
          Effect.tap((context) => Effect.sync(() => context.setDefaultTimeout(15_000))),
          Effect.flatMap((context) => Effect.promise(() => context.newPage()))
        )
    }))
  )
}
