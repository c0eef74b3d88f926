// Pictures of Mission Control, taken of the demo. `npm run pictures` renews the few that the README shows, in docs/pictures;
// `npm run pictures -- --all FOLDER` takes every page there is, light and dark, wide and narrow, into a folder elsewhere.
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join, resolve } from "node:path"
import { setTimeout as rest } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { chromium } from "playwright-core"
import { findChromium } from "./chromium.mjs"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const { values: options } = parseArgs({ options: { all: { type: "string" }, into: { type: "string" } } })

const wide = { width: 1440, height: 900 }
const narrow = { width: 390, height: 844 }

/** The demo needs a little while until everything in it has happened once. */
const warmUp = 20_000
/** A page has what it asked for by then, and its charts are drawn. */
const settling = 1_500

const startDemo = async () => {
  const child = spawn(process.execPath, [join(root, "dist", "nightshift.js"), "demo", "--port", "0"], {
    stdio: ["ignore", "pipe", "inherit"]
  })
  const link = await new Promise((found, failed) => {
    let said = ""
    child.stdout.on("data", (chunk) => {
      said += chunk
      const match = /http:\S+token=\S+/.exec(said)
      if (match !== null) found(match[0])
    })
    child.once("close", () => failed(new Error("the demo ended before it began")))
  })
  const stop = async () => {
    const gone = once(child, "close")
    child.kill("SIGINT")
    await gone
  }
  return { link, origin: new URL(link).origin, token: new URLSearchParams(link.split("?")[1]).get("token"), stop }
}

const startBrowser = async () => {
  const found = findChromium()
  if (found === undefined) throw new Error("no browser is prepared: run node scripts/prepare-browser.mjs")
  const home = mkdtempSync(join(tmpdir(), "nightshift-pictures-"))
  const browser = await chromium.launch({
    executablePath: found.executable,
    args: ["--disable-gpu", "--font-render-hinting=none"],
    env: { ...process.env, ...found.env, XDG_CACHE_HOME: home, XDG_CONFIG_HOME: home }
  })
  return { browser, stop: () => browser.close().finally(() => rmSync(home, { recursive: true, force: true })) }
}

/** A visitor who came by the link. */
const visit = async (browser, link, colorScheme, viewport) => {
  const context = await browser.newContext({ viewport, colorScheme })
  const page = await context.newPage()
  await page.goto(link)
  await page.getByRole("heading", { level: 1 }).waitFor()
  return page
}

/** A page as high as what is on it, so that nothing that sticks to the window is cut. */
const stretch = async (page) => {
  const { width } = page.viewportSize()
  const height = await page.evaluate(() => document.documentElement.scrollHeight)
  await page.setViewportSize({ width, height: Math.min(height, 4_000) })
}

const take = async (page, hash, file, whole = true) => {
  await page.evaluate((to) => {
    location.hash = to
  }, hash)
  await page.getByRole("heading", { level: 1 }).waitFor()
  await page.waitForTimeout(settling)
  const usual = page.viewportSize()
  if (whole) await stretch(page)
  mkdirSync(dirname(file), { recursive: true })
  await page.screenshot({ path: file })
  await page.setViewportSize(usual)
  console.log(file)
}

/** A job that failed thrice has most to show. */
const wornOut = async ({ origin, token }) => {
  const response = await fetch(`${origin}/api/v1/jobs?kind=charge_card&state=dead&deadReason=exhausted&limit=1`, {
    headers: { authorization: `Bearer ${token}` }
  })
  const { jobs } = await response.json()
  return `#/jobs/${jobs[0].id}`
}

const takeAll = async (browser, demo, folder) => {
  const job = await wornOut(demo)
  for (const colours of ["light", "dark"]) {
    for (const [size, viewport] of Object.entries({ wide, narrow })) {
      const page = await visit(browser, demo.link, colours, viewport)
      const places = await page.locator("nav a.place").evaluateAll((links) => links.map((link) => link.hash))
      for (const hash of [...places, job]) {
        const name = hash === job ? "job" : hash.replace(/\W+/g, "")
        await take(page, hash, join(folder, `${name}-${colours}-${size}.png`))
      }
      await page.context().close()
    }
  }
}

/** What the README shows: a screenful each. */
const takeFew = async (browser, demo, folder) => {
  const job = await wornOut(demo)
  const light = await visit(browser, demo.link, "light", { width: 1200, height: 760 })
  await take(light, "#/overview", join(folder, "overview-light.png"), false)
  await take(light, job, join(folder, "job.png"), false)
  await take(light, "#/dead", join(folder, "dead.png"), false)
  const dark = await visit(browser, demo.link, "dark", { width: 1200, height: 760 })
  await take(dark, "#/overview", join(folder, "overview-dark.png"), false)
}

const demo = await startDemo()
try {
  const { browser, stop } = await startBrowser()
  try {
    await rest(warmUp)
    if (options.all === undefined) await takeFew(browser, demo, resolve(options.into ?? join(root, "docs", "pictures")))
    else await takeAll(browser, demo, resolve(options.all))
  } finally {
    await stop()
  }
} finally {
  await demo.stop()
}
