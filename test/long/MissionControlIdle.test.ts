import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { ControlRoom, queueRow } from "../journeys/fixtures/ControlRoom.js"
import { step } from "../journeys/fixtures/OperatorSteps.js"
import { Browser } from "../support/Browser.js"

interface Heard {
  readonly name: string
  readonly data: string
}

/** What a page hears on its event stream, and how to wait for more. */
const listenOn = async (page: Page) => {
  const events: Array<Heard> = []
  const waiting = new Set<() => void>()
  const session = await page.context().newCDPSession(page)
  await session.send("Network.enable")
  session.on("Network.eventSourceMessageReceived", ({ data, eventName }) => {
    events.push({ name: eventName, data })
    for (const look of waiting) look()
  })
  const until = (isEnough: () => boolean) =>
    new Promise<void>((done) => {
      const look = () => {
        if (!isEnough()) return
        waiting.delete(look)
        done()
      }
      waiting.add(look)
      look()
    })
  const count = (name: string) => events.filter((event) => event.name === name).length
  return {
    events,
    /** Waits for this many more events of a name. */
    more: (name: string, number: number) => {
      const enough = count(name) + number
      return until(() => count(name) >= enough)
    }
  }
}

const names = Array.from({ length: 112 }, (_, index) => `idle-${String(index).padStart(3, "0")}`)

layer(Layer.merge(Browser.layer, ControlRoom.layer), { excludeTestServices: true, timeout: "3 minutes" })(
  "an idle tab of Mission Control with 112 queues that no process serves",
  (it) => {
    it.scoped("sends fewer than ten requests a minute, and gets only the queue that changed", () =>
      Effect.gen(function* () {
        const { api, enqueue, enter } = yield* ControlRoom
        const jobs = names.map((queue) => ({ kind: "noop_echo", queue, payload: {} }))
        yield* api("POST", "jobs", { force: true, jobs })
        const page = yield* enter("overview")
        const requests: Array<string> = []
        yield* step(async () => {
          await queueRow(page, "idle-111").waitFor()
          const stream = await listenOn(page)
          // Measurements of the jobs above are loaded in the first ten seconds: three heartbeats are more.
          await stream.more("heartbeat", 3)
          page.on("request", (request) => requests.push(request.url()))
          const before = stream.events.length
          const age = (await queueRow(page, "idle-111").locator("td").last().textContent()) ?? ""
          const started = performance.now()
          // Twelve heartbeats are a minute, in which every request of the page is due at least once.
          await stream.more("heartbeat", 12)
          const minutes = Math.max(1, (performance.now() - started) / 60_000)
          expect(requests.length / minutes, requests.join("\n")).toBeLessThan(10)
          expect(stream.events.slice(before).filter(({ name }) => name === "queues")).toEqual([])
          // Nothing was sent, and the age goes on.
          await queueRow(page, "idle-111").getByText(age, { exact: true }).waitFor({ state: "detached" })
        })
        const stream = yield* step(() => listenOn(page))
        yield* enqueue({ queue: "idle-042" })
        yield* step(async () => {
          await queueRow(page, "idle-042").getByText("2", { exact: true }).waitFor()
          const changes = stream.events.filter(({ name }) => name === "queues").map(({ data }) => JSON.parse(data))
          // On a busy machine, its measurements are loaded before this, as a second change.
          const changed = new Set(changes.flatMap(({ changed }) => changed).map(({ name }) => name))
          expect(changed).toEqual(new Set(["idle-042"]))
          expect(requests.filter((url) => url.endsWith("/v1/queues"))).toEqual([])
        })
      })
    )
  }
)
