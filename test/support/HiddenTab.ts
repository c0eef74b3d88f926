import { setTimeout } from "node:timers/promises"
import type { BrowserContext, Page } from "playwright-core"

// Headless pages are always visible, so the state of a hidden tab is emulated, and its event streams are counted.

/** Counts the event streams of all pages of a context that are opened later. */
export const countStreams = (context: BrowserContext): Promise<unknown> =>
  context.addInitScript(() => {
    const Real = EventSource
    const streams: Array<EventSource> = []
    Object.assign(globalThis, {
      streams,
      EventSource: class extends Real {
        constructor(...given: ConstructorParameters<typeof Real>) {
          super(...given)
          streams.push(this)
        }
      }
    })
  })

/** How many streams of a page are open or being opened. */
export const streamsOf = (page: Page): Promise<number> =>
  page.evaluate("streams.filter(({ readyState }) => readyState !== EventSource.CLOSED).length")

/** Hides or shows a tab. */
export const turn = (page: Page, state: "hidden" | "visible"): Promise<unknown> =>
  page.evaluate(`
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => "${state}" })
    Object.defineProperty(document, "hidden", { configurable: true, get: () => "${state}" === "hidden" })
    document.dispatchEvent(new Event("visibilitychange"))`)

/** Moves the installed clock of a hidden tab to its next look, and waits until the look has closed its stream. */
export const look = async (page: Page): Promise<void> => {
  const before = await page.evaluate("streams.length")
  await page.clock.fastForward("01:10")
  if ((await page.evaluate("streams.length")) === before) throw new Error("the tab did not look")
  while ((await streamsOf(page)) > 0) await setTimeout(20)
}
