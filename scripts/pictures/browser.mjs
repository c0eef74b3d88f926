import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { chromium } from "playwright-core"
import { findChromium, launchOptions } from "../chromium.mjs"

/** Starts the browser that the tests use. */
export const startBrowser = async () => {
  const found = findChromium()
  if (found === undefined) throw new Error("no browser found; run node scripts/prepare-browser.mjs")
  const home = mkdtempSync(join(tmpdir(), "nightshift-pictures-"))
  const browser = await chromium.launch(launchOptions(found, home))
  return { browser, stop: () => browser.close().finally(() => rmSync(home, { recursive: true, force: true })) }
}
