// Takes screenshots of Mission Control with the demo. `npm run pictures` updates the README's pictures in
// docs/pictures. `npm run pictures -- --all FOLDER` takes every page, light and dark, wide and narrow, into another
// folder. `--only PATTERN`, such as `schedules|dark-narrow`, limits it to matching names.
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, dirname, join, resolve } from "node:path"
import { setTimeout as rest } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { chromium } from "playwright-core"
import { findChromium, launchOptions } from "./chromium.mjs"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const { values: options } = parseArgs({
  options: { all: { type: "string" }, into: { type: "string" }, only: { type: "string" } }
})

const wide = { width: 1440, height: 900 }
const narrow = { width: 390, height: 844 }

/** Milliseconds until every part of the demo has some activity. */
const warmUp = 20_000
/** Milliseconds until a page has loaded its data and drawn its charts. */
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
    child.once("close", () => failed(new Error("the demo exited before it was ready")))
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
  if (found === undefined) throw new Error("no browser found; run node scripts/prepare-browser.mjs")
  const home = mkdtempSync(join(tmpdir(), "nightshift-pictures-"))
  const browser = await chromium.launch(launchOptions(found, home))
  return { browser, stop: () => browser.close().finally(() => rmSync(home, { recursive: true, force: true })) }
}

/** Opens a logged-in page. */
const visit = async (browser, link, colorScheme, viewport) => {
  const context = await browser.newContext({ viewport, colorScheme })
  const page = await context.newPage()
  await page.goto(link)
  await page.getByRole("heading", { level: 1 }).waitFor()
  return page
}

/** Makes the viewport as high as the page, so that sticky elements are not cut off. */
const stretch = async (page) => {
  const { width } = page.viewportSize()
  const height = await page.evaluate(() => document.documentElement.scrollHeight)
  await page.setViewportSize({ width, height: Math.min(height, 4_000) })
}

const wanted = (file) => options.only === undefined || new RegExp(options.only).test(basename(file))

const take = async (page, hash, file, { open, whole = true } = {}) => {
  if (!wanted(file)) return
  await page.evaluate((to) => {
    location.hash = to
  }, hash)
  await page.getByRole("heading", { level: 1 }).waitFor()
  await page.waitForTimeout(settling)
  if (open !== undefined) {
    await open(page)
    await page.waitForTimeout(settling)
  }
  const usual = page.viewportSize()
  const tooWide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
  if (whole) await stretch(page)
  mkdirSync(dirname(file), { recursive: true })
  await page.screenshot({ path: file })
  await page.setViewportSize(usual)
  console.log(tooWide > 0 ? `${file}  the page is ${tooWide} px wider than its window` : file)
}

/** Returns the URL of an exhausted job, which has the most details. */
const exhaustedJob = async ({ origin, token }) => {
  const response = await fetch(`${origin}/api/v1/jobs?kind=charge_card&state=dead&deadReason=exhausted&limit=1`, {
    headers: { authorization: `Bearer ${token}` }
  })
  const { jobs } = await response.json()
  return `#/jobs/${jobs[0].id}`
}

/** Views that need a click: the page and how to open it. */
const opened = {
  "overview-menu": ["#/overview", (page) => page.getByRole("button", { name: "Menu" }).click(), "narrow"],
  "jobs-filters": ["#/jobs?kind=charge_card&state=dead", (page) => press(page, "More filters")],
  "jobs-save-view": ["#/jobs?kind=charge_card&state=dead", (page) => press(page, "Save view")],
  "jobs-none": ["#/jobs?kind=nobody_knows", () => {}],
  "queues-settings": ["#/queues", (page) => press(page, "Settings")],
  "queues-charts": ["#/queues", (page) => press(page, "Charts")],
  "schedules-runs": ["#/schedules", (page) => press(page, "Next runs").then(() => press(page, "History"))],
  "schedules-edit": ["#/schedules", (page) => press(page, "Edit")],
  "schedules-new": ["#/schedules", (page) => press(page, "New schedule")],
  "dead-requeue": ["#/dead", (page) => press(page, "Requeue all")],
  "bots-deliveries": ["#/bots", (page) => press(page, "Deliveries")],
  "audit-changes": ["#/audit", (page) => press(page, "Changes")],
  "job-edit": [
    "#/scheduled?kind=send_reminder",
    (page) =>
      page
        .locator("tbody a")
        .first()
        .click()
        .then(() => press(page, "Edit"))
  ],
  keys: ["#/overview", (page) => page.keyboard.press("?")]
}

const press = (page, name) => page.getByRole("button", { name, exact: true }).first().click()

/** Creates audit entries. */
const actOnce = async ({ origin, token }) => {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" }
  const { queues } = await (await fetch(`${origin}/api/v1/queues`, { headers })).json()
  const change = (body) =>
    fetch(`${origin}/api/v1/queues/${queues[0].name}`, { method: "PATCH", headers, body: JSON.stringify(body) })
  await change({ paused: true })
  await change({ paused: false })
}

const takeAll = async (browser, demo, folder) => {
  const job = await exhaustedJob(demo)
  await actOnce(demo)
  for (const colours of ["light", "dark"]) {
    for (const [size, viewport] of Object.entries({ wide, narrow })) {
      const fileOf = (name) => join(folder, `${name}-${colours}-${size}.png`)
      const page = await visit(browser, demo.link, colours, viewport)
      const places = await page.locator("nav a.place").evaluateAll((links) => links.map((link) => link.hash))
      for (const hash of [...places, job, "#/nowhere"]) {
        await take(page, hash, fileOf(hash === job ? "job" : hash.replace(/\W+/g, "")))
      }
      for (const [name, [hash, open, only = size]] of Object.entries(opened)) {
        if (only !== size || !wanted(fileOf(name))) continue
        await take(page, hash, fileOf(name), { open })
        // Reload, so that nothing stays open in the next screenshot.
        await page.reload()
        await page.getByRole("heading", { level: 1 }).waitFor()
      }
      await page.context().clearCookies()
      await page.reload()
      await take(page, "#/overview", fileOf("login"))
      await page.context().close()
    }
  }
}

/** Takes the README's pictures, one screenful each. */
const takeFew = async (browser, demo, folder) => {
  const job = await exhaustedJob(demo)
  const light = await visit(browser, demo.link, "light", { width: 1200, height: 760 })
  await take(light, "#/overview", join(folder, "overview-light.png"), { whole: false })
  await take(light, job, join(folder, "job.png"), { whole: false })
  await take(light, "#/dead", join(folder, "dead.png"), { whole: false })
  const dark = await visit(browser, demo.link, "dark", { width: 1200, height: 760 })
  await take(dark, "#/overview", join(folder, "overview-dark.png"), { whole: false })
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
