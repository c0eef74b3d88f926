// `npm run film`: records the demo as docs/pictures/film.webp. A process is killed while it runs a job, and another process completes
// the job. Everything in it is real: the service, two worker processes, the commands, their output and the times.
import { fork } from "node:child_process"
import { once } from "node:events"
import { writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { must } from "./installed.mjs"
import { startBrowser } from "./pictures/browser.mjs"
import { clientOf, startDemo } from "./pictures/scene.mjs"
import { animate } from "./pictures/webp.mjs"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const target = join(root, "docs", "pictures", "film.webp")
const size = { width: 1000, height: 700 }
const limit = 1_000_000

/** Milliseconds between frames, and how long the last one stays. */
const interval = 150
const ending = 4_000
/** Milliseconds to wait for a state of the job. */
const patience = 60_000

/** The strip with the shell, over the lower edge of the page. */
const addShell = () => {
  const shell = document.createElement("pre")
  shell.id = "film-shell"
  Object.assign(shell.style, {
    position: "fixed",
    inset: "auto 0 0 0",
    zIndex: "99999",
    margin: "0",
    boxSizing: "border-box",
    height: "150px",
    padding: "14px 20px",
    overflow: "hidden",
    background: "#0b0e14",
    borderTop: "2px solid #3d4660",
    color: "#d7dceb",
    font: "15px/24px ui-monospace, 'DejaVu Sans Mono', monospace",
    whiteSpace: "pre"
  })
  document.body.append(shell)
}

const show = (page, lines) =>
  page.evaluate((shown) => {
    const shell = document.getElementById("film-shell")
    shell.replaceChildren(
      ...shown.map((line) => {
        const row = document.createElement("div")
        row.textContent = line
        if (line.startsWith("#")) row.style.color = "#8fb8ff"
        if (line.includes("kill -9")) row.style.color = "#ff8f8f"
        return row
      })
    )
  }, lines.slice(-5))

/** A shell whose lines are typed. */
const shellOf = (page) => {
  const lines = []
  const print = async (...more) => {
    lines.push(...more)
    await show(page, lines)
  }
  const type = async (command) => {
    for (let length = 2; length < command.length; length += 4) {
      await show(page, [...lines, `$ ${command.slice(0, length)}▌`])
      await sleep(60)
    }
    await print(`$ ${command}`)
    await sleep(400)
  }
  return { print, type }
}

/** Takes pictures until it is stopped, which returns them with their durations. */
const record = (page) => {
  const shots = []
  let isOver = false
  const recording = (async () => {
    while (!isOver) {
      const at = performance.now()
      shots.push({ at, png: await page.screenshot({ caret: "hide" }) })
      await sleep(Math.max(0, at + interval - performance.now()))
    }
  })()
  return async () => {
    isOver = true
    await recording
    return shots.map(({ at, png }, index) => ({
      png,
      duration: Math.round(index + 1 < shots.length ? shots[index + 1].at - at : ending)
    }))
  }
}

const startWorker = async (database, id) => {
  const child = fork(join(root, "scripts/pictures/film-worker.mjs"), {
    env: { ...process.env, DATABASE_URL: database, NIGHTSHIFT_WORKER_PREFIX: "reports", NIGHTSHIFT_WORKER_ID: id },
    stdio: ["ignore", "ignore", "inherit", "ipc"]
  })
  await once(child, "message")
  return child
}

const until = async (check) => {
  const begun = performance.now()
  while (performance.now() < begun + patience) {
    const found = await check()
    if (found) return found
    await sleep(100)
  }
  throw new Error(`not after ${patience / 1_000} s: ${check}`)
}

const play = async (page, { client, database, workers }) => {
  const shell = shellOf(page)
  const goTo = (hash) => page.evaluate((to) => location.assign(to), hash)
  await shell.print("# nightshift demo: a shop with live traffic")
  await sleep(2_500)
  await shell.type('nightshift enqueue nightly_report --payload \'{"day": "Monday"}\'')
  const enqueue = ["enqueue", "nightly_report", "--payload", '{"day": "Monday"}', "--json"]
  const { stdout } = await must(root, process.execPath, [join(root, "dist/nightshift.js"), ...enqueue], {
    DATABASE_URL: database
  })
  const { id } = JSON.parse(stdout)
  await shell.print(id)
  await goTo(`#/jobs/${id}`)
  const job = () => client.get(`jobs/${id}`)
  const doneOf = ({ progress }) => progress?.done ?? 0
  const running = await until(async () => {
    const found = await job()
    return found.state === "running" && doneOf(found) >= 7 && found
  })
  const { pods } = await client.get("pods")
  const { pid } = pods.find((pod) => pod.id === running.pod).host
  const victim = workers.find((worker) => worker.pid === pid)
  if (victim === undefined) throw new Error(`no worker of the film runs the job, but process ${pid}`)
  await shell.type(`kill -9 ${pid}    # in the middle of the job`)
  victim.kill("SIGKILL")
  const killed = performance.now()
  await until(async () => (await job()).pod !== running.pod && (await job()).state === "running")
  const seconds = ((performance.now() - killed) / 1_000).toFixed(1)
  await shell.print(`# ${seconds} s later another process runs the job from the start`)
  await until(async () => (await job()).state === "done")
  const { attempt, result } = await job()
  await shell.print(`# done by process ${result.process}, attempt ${attempt}: the crash did not use one up`)
  await sleep(1_500)
}

const { browser, stop } = await startBrowser()
const stops = [stop]
try {
  const demo = await startDemo(root)
  stops.push(demo.stop)
  const workers = []
  for (const id of ["A", "B"]) {
    const worker = await startWorker(demo.database, id)
    workers.push(worker)
    stops.push(() => worker.kill("SIGKILL"))
  }
  const context = await browser.newContext({ viewport: size, colorScheme: "dark", bypassCSP: true })
  const page = await context.newPage()
  await page.goto(demo.link)
  await page.getByRole("heading", { level: 1 }).waitFor()
  await page.evaluate(addShell)
  await page.locator("canvas").first().waitFor()
  // A process judges others after it has watched them for a while.
  await sleep(25_000)
  const finish = record(page)
  await play(page, { client: clientOf(demo), database: demo.database, workers })
  const shots = await finish()
  const { file, frames } = await animate(await browser.newPage(), shots, size)
  const length = shots.reduce((sum, { duration }) => sum + duration, 0) / 1_000
  console.log(`${target}: ${frames} frames, ${length.toFixed(0)} s, ${(file.length / 1e3).toFixed(0)} kB`)
  if (file.length > limit) throw new Error(`The film is larger than ${limit / 1e6} MB.`)
  writeFileSync(target, file)
} finally {
  for (const end of stops.toReversed()) await end()
}
