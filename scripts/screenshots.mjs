// Takes screenshots of Mission Control with the demo. `npm run pictures` updates the README's pictures in
// docs/pictures, and puts every page, in both themes and three widths, into `pictures/`, which git ignores. There,
// `sheet-light-1280-1.png` and the like show all pages of one theme and width in a row. `--only PATTERN`, such as
// `schedules|dark-390`, takes just the matching pages, and leaves the README's pictures alone.
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, dirname, join, resolve } from "node:path"
import { setTimeout as rest } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { chromium } from "playwright-core"
import { findChromium, launchOptions } from "./chromium.mjs"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const { values: options } = parseArgs({
  options: { into: { type: "string" }, only: { type: "string" } }
})

const sizes = {
  1280: { width: 1280, height: 800 },
  1920: { width: 1920, height: 1080 },
  390: { width: 390, height: 844 }
}

/** Pages per contact sheet, and their width in it. */
const sheets = { 1280: { most: 8, columns: 4 }, 1920: { most: 8, columns: 4 }, 390: { most: 14, columns: 7 } }
const sheetWidth = 2_000

/** Milliseconds until every part of the demo has some activity. */
const warmUp = 20_000
/** Milliseconds until a page has loaded its data and drawn its charts. */
const settling = 1_000

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

/** Files of the current theme and width, for the contact sheet. */
const taken = []

const wanted = (file) => options.only === undefined || new RegExp(options.only).test(basename(file))

const take = async (page, hash, file, { open, whole = true } = {}) => {
  if (!wanted(file)) return
  await page.evaluate((to) => {
    location.hash = to
  }, hash)
  await page.getByRole("heading", { level: 1 }).waitFor()
  await page.waitForTimeout(settling)
  await page.waitForFunction(() => !document.body.innerText.includes("Loading"))
  if (open !== undefined) {
    await open(page)
    await page.waitForTimeout(settling)
  }
  const usual = page.viewportSize()
  const tooWide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
  if (whole && (await page.locator("dialog").count()) === 0) await stretch(page)
  mkdirSync(dirname(file), { recursive: true })
  await page.screenshot({ path: file })
  taken.push(file)
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
  "overview-menu": ["#/overview", (page) => page.getByRole("button", { name: "Menu" }).click(), "390"],
  "jobs-filters": ["#/jobs?kind=charge_card&state=dead", (page) => press(page, "More filters")],
  "jobs-save-view": ["#/jobs?kind=charge_card&state=dead", (page) => press(page, "Save view")],
  "jobs-none": ["#/jobs?kind=nobody_knows", () => {}],
  "jobs-columns": ["#/jobs?state=done&sort=duration", (page) => page.getByText("Columns", { exact: true }).click()],
  "jobs-enqueue": [
    "#/jobs",
    async (page) => {
      await press(page, "Enqueue")
      await page.getByRole("dialog").getByLabel("Kind", { exact: true }).fill("charge_card")
      await page.waitForTimeout(settling)
      await page.getByRole("dialog").getByLabel("Payload").fill('{\n  "order": 7,\n  "cents": "12"\n}')
    }
  ],
  "queue-settings": ["#/queues/billing", (page) => press(page, "Settings")],
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

/** Shows the pages taken since the last sheet side by side, a few per sheet. */
const takeSheets = async (browser, folder, name, { columns, most }) => {
  const page = await browser.newPage({ viewport: { width: sheetWidth, height: 1_000 } })
  for (let first = 0; first < taken.length; first += most) {
    const cells = taken.slice(first, first + most).map((file) => {
      const image = readFileSync(file).toString("base64")
      return `<figure><figcaption>${basename(file)}</figcaption><img src="data:image/png;base64,${image}"></figure>`
    })
    await page.setContent(`<style>
      body { display: grid; grid-template-columns: repeat(${columns}, 1fr); gap: 12px; margin: 12px; font: 13px sans-serif; background: #888 }
      figure { margin: 0 } img { width: 100%; max-height: 1400px; object-fit: cover; object-position: top }
    </style>${cells.join("")}`)
    const file = join(folder, `sheet-${name}-${first / most + 1}.png`)
    await page.screenshot({ path: file, fullPage: true })
    console.log(file)
  }
  await page.close()
}

const takeAll = async (browser, demo, folder) => {
  const job = await exhaustedJob(demo)
  await actOnce(demo)
  for (const colours of ["light", "dark"]) {
    for (const [size, viewport] of Object.entries(sizes)) {
      taken.length = 0
      const fileOf = (name) => join(folder, `${name}-${colours}-${size}.png`)
      const page = await visit(browser, demo.link, colours, viewport)
      const places = await page.locator("nav a.place").evaluateAll((links) => links.flatMap((link) => link.hash || []))
      const pods = await page.evaluate(() => fetch("../api/v1/pods").then((response) => response.json()))
      const more = { job, kind: "#/kinds/charge_card", queue: "#/queues/billing", pod: `#/pods/${pods.pods[0].id}` }
      for (const hash of places) await take(page, hash, fileOf(hash.replace(/\W+/g, "")))
      for (const [name, hash] of Object.entries(more)) await take(page, hash, fileOf(name))
      await take(page, "#/nowhere", fileOf("nowhere"))
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
      await takeSheets(browser, folder, `${colours}-${size}`, sheets[size])
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
    if (options.only === undefined) await takeFew(browser, demo, join(root, "docs", "pictures"))
    await takeAll(browser, demo, resolve(options.into ?? join(root, "pictures")))
  } finally {
    await stop()
  }
} finally {
  await demo.stop()
}
