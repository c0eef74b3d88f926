// Takes screenshots of Mission Control with the demo. `npm run pictures` updates the README's pictures in docs/pictures,
// and puts every view, in both themes and three widths, into `pictures/`, which git ignores: one file per view, and one
// contact sheet per theme and width, such as `sheet-light-1280.png`.
//
//   --only PATTERN     only the matching views, such as `schedules|390`; `readme` means the README's pictures
//   --into FOLDER      instead of `pictures/`
//   --per-sheet COUNT  several sheets with at most this many views each
//   --minutes COUNT    skip views that are not done by then (default 12)
//
// The script waits for states of the page, not for times. A view that does not reach its state is reported at the end
// and does not stop the other views. Exits with 1 if a view is missing or wider than its window.
import { mkdirSync, readFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { startBrowser } from "./pictures/browser.mjs"
import { setScene } from "./pictures/scene.mjs"
import { readmeViewsOf, viewsOf } from "./pictures/views.mjs"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const { values: options } = parseArgs({
  options: {
    into: { type: "string" },
    only: { type: "string" },
    "per-sheet": { type: "string", default: "1000" },
    minutes: { type: "string", default: "12" }
  }
})
const folder = resolve(options.into ?? join(root, "pictures"))
const perSheet = Number(options["per-sheet"])

const begun = performance.now()
const deadline = begun + Number(options.minutes) * 60_000
const seconds = (since) => ((performance.now() - since) / 1000).toFixed(1)

const themes = ["light", "dark"]
const sizes = {
  1280: { width: 1280, height: 800 },
  1920: { width: 1920, height: 1080 },
  390: { width: 390, height: 844 }
}
const readmeSize = { width: 1200, height: 760 }

/** Most columns of a contact sheet, the width of a view in it, and its greatest height as a share of its width. */
const sheets = {
  1280: { columns: 6, width: 620, tall: 1.1 },
  1920: { columns: 6, width: 620, tall: 0.9 },
  390: { columns: 12, width: 310, tall: 3 }
}

/** Milliseconds for each thing that a view waits for. */
const timeout = 15_000
/** Maximum height in pixels; longer lists are cut. */
const tallest = 3_000

const problems = []
const report = (problem) => {
  problems.push(problem)
  console.log(`  ! ${problem}`)
}

/** Counts the requests that a page has sent and not received, except for its event stream. */
const watchRequests = (page) => {
  const open = new Set()
  const isCounted = (request) => /\/api\/v1\/(?!events)/.test(request.url())
  page.on("request", (request) => isCounted(request) && open.add(request))
  page.on("requestfinished", (request) => open.delete(request))
  page.on("requestfailed", (request) => open.delete(request))
  return {
    none: async () => {
      const end = performance.now() + timeout
      while (open.size > 0) {
        if (performance.now() > end) throw new Error(`no response from ${[...open].map((each) => each.url()).join()}`)
        await Promise.race([page.waitForEvent("requestfinished"), page.waitForEvent("requestfailed")]).catch(() => {})
      }
    },
    forget: () => open.clear()
  }
}

/** Two frames: effects have run and their result is painted. */
const painted = (page) =>
  page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))

/** Waits until the page has all its data. A response may cause another request, so it checks twice. */
const settled = async (page, requests, { isLoading = false } = {}) => {
  await page.locator("h1, form").first().waitFor()
  for (let look = 0; look < 2; look += 1) {
    await painted(page)
    if (!isLoading) await requests.none()
  }
  if (!isLoading)
    await page
      .getByText(/^Loading|^Waiting for the service/)
      .first()
      .waitFor({ state: "detached" })
  await page.evaluate(() => document.fonts.ready)
  await painted(page)
}

/** Opens a logged-in page. */
const visit = async (browser, link, viewport) => {
  const context = await browser.newContext({ viewport, colorScheme: "light", reducedMotion: "reduce" })
  context.setDefaultTimeout(timeout)
  const page = await context.newPage()
  const requests = watchRequests(page)
  await page.goto(link)
  await settled(page, requests)
  return { page, requests, close: () => context.close() }
}

const goTo = (page, hash) =>
  page.evaluate((to) => {
    location.hash = to
  }, hash)

/** Makes the viewport as high as the page, so that sticky elements are not cut off. */
const stretch = async (page, { width, height }) => {
  const needed = await page.evaluate(() => document.documentElement.scrollHeight)
  await page.setViewportSize({ width, height: Math.min(Math.max(needed, height), tallest) })
}

const shoot = async (page, file) => {
  mkdirSync(dirname(file), { recursive: true })
  await painted(page)
  await page.screenshot({ path: file, animations: "disabled" })
}

/** Takes one view in the given themes and writes the files. */
const take = async ({ page, requests }, view, viewport, files) => {
  await view.before?.(page)
  await goTo(page, view.hash)
  await settled(page, requests, view)
  if (view.open !== undefined) {
    await view.open(page)
    await settled(page, requests, view)
  }
  const tooWide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
  if (tooWide > 0) report(`${view.name} is ${tooWide} px wider than its window of ${viewport.width} px`)
  if (view.isWhole !== false && (await page.locator("dialog").count()) === 0) await stretch(page, viewport)
  for (const [theme, file] of files) {
    await page.emulateMedia({ colorScheme: theme })
    await shoot(page, file)
  }
}

/** Undoes what a view has opened or intercepted. */
const restore = async ({ page, requests }, view, viewport) => {
  await page.setViewportSize(viewport)
  await page.emulateMedia({ colorScheme: "light" })
  if (view.open === undefined && view.before === undefined) return
  await page.unrouteAll({ behavior: "ignoreErrors" })
  requests.forget()
  // An empty page in between, so that nothing stays open, not even a focus.
  await goTo(page, "#/nowhere")
  await page.reload()
  await page.locator("h1, form").first().waitFor()
}

const firstLine = (error) => String(error.message ?? error).split("\n")[0]

/** Shows the files side by side. */
const takeSheets = async (browser, files, name, { columns, tall, width }) => {
  for (let first = 0; first < files.length; first += perSheet) {
    const some = files.slice(first, first + perSheet)
    const across = Math.min(columns, Math.ceil(Math.sqrt(some.length * (tall > 2 ? 3 : 1))))
    const page = await browser.newPage({ viewport: { width: across * (width + 12) + 12, height: 1_000 } })
    const cells = some.map(({ file, view }) => {
      const image = readFileSync(file).toString("base64")
      return `<figure><figcaption>${view}</figcaption><img src="data:image/png;base64,${image}"></figure>`
    })
    await page.setContent(`<style>
      body { display: grid; grid-template-columns: repeat(${across}, ${width}px); gap: 12px; margin: 12px; background: #888 }
      figure { margin: 0 } figcaption { font: 600 18px sans-serif }
      img { display: block; width: 100%; max-height: ${width * tall}px; object-fit: cover; object-position: top }
    </style>${cells.join("")}`)
    const file = join(folder, `sheet-${name}${perSheet < files.length ? `-${first / perSheet + 1}` : ""}.png`)
    await page.screenshot({ path: file, fullPage: true })
    await page.close()
    console.log(`  ${file}`)
  }
}

const isWanted = (name) => options.only === undefined || new RegExp(options.only).test(name)

/** Takes all views of one width in both themes, and their sheets. */
const takeWidth = async (browser, scene, size, progress) => {
  const viewport = sizes[size]
  const nameOf = (view, theme) => `${view.name}-${theme}-${size}`
  const views = viewsOf(scene).filter(({ only = size }) => only === size)
  const visitor = await visit(browser, scene.link, viewport)
  const taken = { light: [], dark: [] }
  for (const view of views) {
    const wanted = themes.filter((theme) => isWanted(nameOf(view, theme)))
    if (wanted.length === 0) continue
    progress.count += 1
    if (performance.now() > deadline) {
      report(`${view.name} at ${size} px was skipped: ${options.minutes} minutes are over`)
      continue
    }
    const since = performance.now()
    const files = wanted.map((theme) => [theme, join(folder, `${nameOf(view, theme)}.png`)])
    try {
      await take(visitor, view, viewport, files)
      for (const [theme, file] of files) taken[theme].push({ view: view.name, file })
    } catch (error) {
      report(`${view.name} at ${size} px: ${firstLine(error)}`)
    }
    if (!view.isLast) await restore(visitor, view, viewport)
    const share = String(Math.round((100 * progress.count) / progress.total)).padStart(3)
    console.log(`${share} %  ${String(size).padStart(4)} px  ${view.name}  ${seconds(since)} s`)
  }
  await visitor.close()
  for (const theme of themes) {
    if (taken[theme].length > 0) await takeSheets(browser, taken[theme], `${theme}-${size}`, sheets[size])
  }
  return taken.light.length + taken.dark.length
}

const takeReadme = async (browser, scene) => {
  const visitor = await visit(browser, scene.link, readmeSize)
  for (const { file, hash, theme } of readmeViewsOf(scene)) {
    const path = join(root, "docs", "pictures", file)
    await take(visitor, { name: file, hash, isWhole: false }, readmeSize, [[theme, path]])
    console.log(`       ${path}`)
  }
  await visitor.close()
}

console.log("starting the demo")
const scene = await setScene(root, report)
try {
  console.log(`every page has content after ${seconds(begun)} s`)
  const { browser, stop } = await startBrowser()
  try {
    if (isWanted("readme")) await takeReadme(browser, scene)
    const progress = {
      count: 0,
      total: Object.keys(sizes).flatMap((size) =>
        viewsOf(scene).filter(
          (view) => (view.only ?? size) === size && themes.some((theme) => isWanted(`${view.name}-${theme}-${size}`))
        )
      ).length
    }
    let taken = 0
    for (const size of Object.keys(sizes)) taken += await takeWidth(browser, scene, size, progress)
    console.log(`\n${taken} pictures in ${seconds(begun)} s, in ${folder}`)
  } finally {
    await stop()
  }
} finally {
  await scene.stop()
}
for (const problem of problems) console.log(`- ${problem}`)
console.log(problems.length === 0 ? "no problems" : `${problems.length} problems`)
if (problems.length > 0) process.exitCode = 1
