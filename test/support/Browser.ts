import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Context, Data, Effect, Exit, Layer, type Scope } from "effect"
import { type Browser as Client, chromium, type Page } from "playwright-core"
import { type Chromium, findChromium, launchOptions } from "../../scripts/chromium.mjs"

/** No browser could be started; the reason says how to fix it. */
export class BrowserUnavailable extends Data.TaggedError("BrowserUnavailable")<{ readonly reason: string }> {
  override get message() {
    return this.reason
  }
}

/** The browser's process ended while a page was open. */
export class BrowserDied extends Data.TaggedError("BrowserDied")<{ readonly how: string }> {
  override get message() {
    return `Chromium died (${this.how}) while a page was open. Run it by hand with the same page to see why.`
  }
}

export interface PageOptions {
  readonly viewport?: { readonly width: number; readonly height: number }
  readonly colorScheme?: "light" | "dark"
  readonly javaScriptEnabled?: boolean
  readonly reducedMotion?: "reduce" | "no-preference"
}

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
  (home) => Effect.promise(() => rm(home, { recursive: true, force: true, maxRetries: 3 }))
)

/** One browser process. */
interface Running {
  readonly client: Client
  /** How the process ended, if this module did not end it. */
  readonly died: () => string | undefined
  /** Resolves when the process has ended for any reason. */
  readonly exited: Promise<void>
  readonly close: () => Promise<void>
}

// Playwright's own `launch` hides the process, and with it the signal that ended it.
const start = async (found: Chromium, home: string): Promise<Running> => {
  const server = await chromium.launchServer(launchOptions(found, home))
  let died: string | undefined
  let closing = false
  const exited = new Promise<void>((resolve) => {
    server.process().once("exit", (code, signal) => {
      if (!closing) died = signal === null ? `exit code ${code}` : `signal ${signal}`
      resolve()
    })
  })
  const client = await chromium.connect(server.wsEndpoint())
  return {
    client,
    died: () => died,
    exited,
    close: async () => {
      closing = true
      await client.close()
      await server.close()
    }
  }
}

/** Rejects if the browser is dead. Closing a context does not notice: it succeeds while the process is still ending. */
const answers = async ({ client }: Running) => (await client.newBrowserCDPSession()).detach()

/**
 * Runs an act on the browser. If the browser died, the failure says so. The connection of a dying browser
 * closes before its process has ended, so a failed act gives the process a moment to end.
 */
const act = <A>(running: Running, body: () => Promise<A>): Effect.Effect<A> =>
  Effect.gen(function* () {
    const exit = yield* Effect.exit(Effect.promise(body))
    if (Exit.isFailure(exit))
      yield* Effect.timeoutOption(
        Effect.promise(() => running.exited),
        "10 seconds"
      )
    const how = running.died()
    return yield* how === undefined ? exit : Effect.die(new BrowserDied({ how }))
  })

/**
 * A browser that is started once more if it crashes, during its start too, and not again: a page that always crashes it must
 * fail its test.
 */
const launch = Effect.gen(function* () {
  const found = yield* find
  const home = yield* temporaryHome
  const begin = Effect.tryPromise({ try: () => start(found, home), catch: unavailable })
  let restarts = 0
  let running = yield* Effect.catchAll(begin, ({ reason }) => {
    restarts += 1
    return Effect.zipRight(Effect.logWarning(`Starting Chromium once more, after: ${reason}`), begin)
  })
  yield* Effect.addFinalizer(() => Effect.promise(() => running.close()))
  return Effect.gen(function* () {
    const how = running.died()
    if (how === undefined) return running
    if (restarts > 0) return yield* Effect.die(new BrowserDied({ how }))
    restarts += 1
    yield* Effect.logWarning(`Chromium died (${how}). Starting it once more.`)
    yield* Effect.promise(() => running.close())
    running = yield* Effect.orDie(begin)
    return running
  })
})

/** A real Chromium. Provide its layer once per test file. */
export class Browser extends Context.Tag("nightshift/test/support/Browser")<
  Browser,
  {
    /** Opens an isolated page; it closes with the Scope. A crashed browser fails the Scope. */
    readonly page: (options?: PageOptions) => Effect.Effect<Page, never, Scope.Scope>
  }
>() {
  static readonly page = (options?: PageOptions): Effect.Effect<Page, never, Browser | Scope.Scope> =>
    Effect.flatMap(Browser, (browser) => browser.page(options))

  static readonly layer: Layer.Layer<Browser, BrowserUnavailable> = Layer.scoped(
    Browser,
    Effect.map(launch, (current) => ({
      page: (options) =>
        Effect.gen(function* () {
          const running = yield* current
          const context = yield* Effect.acquireRelease(
            act(running, () => running.client.newContext({ viewport: { width: 1280, height: 800 }, ...options })),
            (context) => act(running, () => context.close().then(() => answers(running)))
          )
          // Shorter than the test timeout, so that the failure names what was awaited.
          context.setDefaultTimeout(45_000)
          return yield* act(running, () => context.newPage())
        })
    }))
  )
}
