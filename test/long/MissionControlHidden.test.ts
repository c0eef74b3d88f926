import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { ControlRoom, queueRow } from "../journeys/fixtures/ControlRoom.js"
import { button, query, step, until } from "../journeys/fixtures/OperatorSteps.js"
import { Browser } from "../support/Browser.js"
import { countStreams, look, streamsOf, turn } from "../support/HiddenTab.js"

/** A browser opens no more connections to a service over HTTP/1.1. */
const connections = 6

const hasStreams = (page: Page, count: number) =>
  until(
    step(() => streamsOf(page)),
    (open) => open === count
  ).pipe(Effect.timeoutFail({ duration: "40 seconds", onTimeout: () => new Error(`there are not ${count} streams`) }))

layer(Layer.merge(Browser.layer, ControlRoom.layer), { excludeTestServices: true, timeout: "3 minutes" })(
  "hidden tabs of Mission Control",
  (it) => {
    it.scoped("leave the connections of the browser to other tabs, and are current when they are shown again", () =>
      Effect.gen(function* () {
        const { enqueue, enter, url } = yield* ControlRoom
        const context = (yield* enter("queues")).context()
        yield* step(() => countStreams(context))
        const open = step(async () => {
          const tab = await context.newPage()
          await tab.goto(`${url}/ui/#/queues`)
          await button(tab, "Live").waitFor()
          return tab
        })
        yield* step(() => context.pages()[0]?.close() ?? Promise.resolve())
        const first = yield* open
        yield* hasStreams(first, 1)
        const others = yield* Effect.replicateEffect(
          Effect.tap(open, (tab) => step(() => turn(tab, "hidden"))),
          connections - 1
        )
        yield* step(() => turn(first, "hidden"))
        for (const tab of [first, ...others]) yield* hasStreams(tab, 0)
        // All of its requests wait if the streams are open.
        const seventh = yield* open
        yield* enqueue({ queue: "attic" })
        yield* step(() => queueRow(seventh, "attic").waitFor())
        expect(yield* step(() => queueRow(first, "attic").count())).toBe(0)
        expect(yield* step(() => button(first, "Live").count())).toBe(0)
        yield* step(async () => {
          await turn(first, "visible")
          await queueRow(first, "attic").waitFor()
          await button(first, "Live").waitFor()
        })
        yield* hasStreams(first, 1)
        expect(yield* step(() => first.getByRole("alert").count())).toBe(0)
      })
    )

    it.scoped("update their title once a minute, and keep no stream", () =>
      Effect.gen(function* () {
        const { bury, enter, url } = yield* ControlRoom
        const page = yield* enter("queues")
        yield* step(async () => {
          await countStreams(page.context())
          await page.goto(`${url}/ui/`)
          await button(page, "Live").waitFor()
          await page.clock.install()
          await turn(page, "hidden")
          await page.clock.fastForward("00:30")
        })
        yield* hasStreams(page, 0)
        const before = yield* step(() => page.title())
        yield* bury("noop_echo")
        // The service counts while a page listens, so the first look may find the counts of the time before.
        const titleOf = step(async () => {
          await look(page)
          return page.title()
        })
        yield* until(titleOf, (title) => title !== before && title.includes("dead"))
        yield* hasStreams(page, 0)
      })
    )

    it.scoped("keep in their title that the database is down, and say so when they are shown again", () =>
      Effect.gen(function* () {
        const { enter, url } = yield* ControlRoom
        const page = yield* enter("queues")
        const hide = step(async () => {
          await turn(page, "hidden")
          await page.clock.fastForward("00:30")
        }).pipe(Effect.zipRight(hasStreams(page, 0)))
        const isDown = (title: string) => title.includes("database down")
        const titleOf = step(() => page.title())
        const hasTitle = (isSo: (title: string) => boolean) =>
          until(titleOf, isSo).pipe(
            Effect.timeoutFail({ duration: "20 seconds", onTimeout: () => new Error("the title is wrong") })
          )
        yield* step(async () => {
          await countStreams(page.context())
          await page.goto(`${url}/ui/`)
          await button(page, "Live").waitFor()
          await page.clock.install()
        })
        yield* hide
        expect(isDown(yield* titleOf)).toBe(false)
        // Heartbeats read the leader. Logins, and so streams, do not.
        yield* query("alter table nightshift.leader rename to leader_away")
        yield* step(() => look(page))
        yield* hasTitle(isDown)
        yield* step(async () => {
          await turn(page, "visible")
          await button(page, "Database down").waitFor()
          await page.getByRole("alert").getByText("The service is up, its database is not.").waitFor()
        })
        yield* hide
        yield* hasTitle(isDown)
        yield* query("alter table nightshift.leader_away rename to leader")
        yield* until(
          Effect.zipRight(
            step(() => look(page)),
            titleOf
          ),
          (title) => !isDown(title)
        )
        yield* step(async () => {
          await turn(page, "visible")
          await button(page, "Live").waitFor()
        })
        expect(yield* step(() => page.getByRole("alert").count())).toBe(0)
      })
    )

    it.scoped("stay paused when they are shown again", () =>
      Effect.gen(function* () {
        const { enter, url } = yield* ControlRoom
        const page = yield* enter("queues")
        yield* step(async () => {
          await countStreams(page.context())
          await page.goto(`${url}/ui/`)
          await button(page, "Live").click()
          await button(page, "Paused").waitFor()
          await page.clock.install()
          await turn(page, "hidden")
          await page.clock.fastForward("00:30")
          await turn(page, "visible")
          await button(page, "Paused").waitFor()
        })
        yield* hasStreams(page, 0)
      })
    )
  }
)
