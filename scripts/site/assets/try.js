// The page that runs Nightshift. The product itself is loaded when the visitor starts it.
const element = (id) => document.getElementById(id)
const [bench, code, example, log, state, startButton, workers] = [
  "try-bench",
  "try-code",
  "try-example",
  "try-log",
  "try-state",
  "try-start",
  "try-workers"
].map(element)
const frame = document.querySelector(".mission iframe")
const control = new URL("try/ui/index.html", import.meta.url)
const processCount = 2

/** Milliseconds of the cluster's clock until a killed process is started again. */
const restartAfter = 5_000
const logLines = 8

const page = document.documentElement
const dark = matchMedia("(prefers-color-scheme: dark)")
const theme = () => page.dataset.theme ?? (dark.matches ? "dark" : "light")

/** The cluster that runs, and its processes. */
let cluster
let processes = []
/** Jobs of killed processes that no other process runs yet. */
let lost = []

const made = (name, properties, ...children) => {
  const node = Object.assign(document.createElement(name), properties)
  node.append(...children)
  return node
}

const note = (...parts) => {
  log.prepend(made("li", {}, ...parts))
  while (log.children.length > logLines) log.lastChild.remove()
}

const jobLink = ({ id, kind }) =>
  made("a", { href: `${control}#/jobs/${id}`, target: frame.name, textContent: `${kind} ${id.slice(-4)}` })

const act = async (label, run) => {
  try {
    await run()
  } catch (error) {
    note(`${label}: ${error.message}`)
  }
}

const startProcess = async (of) => {
  const process = await of.startProcess()
  if (of !== cluster) return process.kill()
  const jobs = made("span", { className: "jobs" })
  const button = made("button", { type: "button", textContent: `Kill ${process.name}` })
  const row = made("li", {}, made("strong", { textContent: process.name }), " ", jobs, button)
  const entry = { ...process, jobs, row }
  button.addEventListener("click", () => kill(of, entry))
  processes.push(entry)
  workers.append(row)
  return entry
}

const kill = (of, entry) => {
  const held = entry.running()
  entry.kill()
  entry.row.remove()
  processes = processes.filter((other) => other !== entry)
  lost.push(...held)
  const ran = held.flatMap((job, at) => [at === 0 ? " while it ran " : ", ", jobLink(job)])
  note(`You killed ${entry.name}`, ...ran, ".")
  of.clock.steps.after("page", restartAfter, () =>
    act("The process did not start", async () => {
      const next = await startProcess(of)
      if (next !== undefined) note(`${next.name} started in its place.`)
    })
  )
}

/** The kinds of these jobs, and how many there are of each. */
const kindsOf = (jobs) => {
  const counts = new Map()
  for (const { kind } of jobs) counts.set(kind, (counts.get(kind) ?? 0) + 1)
  return [...counts].map(([kind, count]) => (count === 1 ? kind : `${count} × ${kind}`)).join(", ") || "idle"
}

const show = () => {
  for (const entry of processes) {
    const running = entry.running()
    const text = kindsOf(running)
    if (entry.jobs.textContent !== text) entry.jobs.textContent = text
    lost = lost.filter((job) => {
      const again = running.find(({ id }) => id === job.id)
      if (again !== undefined) note(`${entry.name} runs `, jobLink(again), ` again, still as attempt ${again.attempt}.`)
      return again === undefined
    })
  }
}

const showActions = () => {
  const { actions = {}, queues = {} } = cluster.program
  const names = Array.isArray(queues) ? queues : Object.keys(queues)
  const pause = made("button", { type: "button", textContent: "Pause the queues" })
  let isPaused = false
  pause.addEventListener("click", () =>
    act("Pause", async () => {
      isPaused = !isPaused
      pause.textContent = isPaused ? "Resume the queues" : "Pause the queues"
      for (const name of names) await cluster.shift.queues[isPaused ? "pause" : "resume"](name)
    })
  )
  const buttons = Object.entries(actions).map(([label, run]) => {
    const button = made("button", { type: "button", textContent: label })
    button.addEventListener("click", () => act(label, () => run(cluster.shift)))
    return button
  })
  element("try-actions").replaceChildren(...buttons, pause)
}

/** The cluster starts with a new page of Mission Control, whose requests it answers. */
const openControl = () => {
  const answer = cluster.answer
  window.nightshift = {
    now: cluster.clock.now,
    answer: (path, { body, ...options }) => {
      const request = new Request(new URL(path, "http://page.invalid"), { ...options, body })
      // Not every browser has the body of a request as a stream.
      if (body !== undefined) Object.defineProperty(request, "body", { value: new Response(body).body })
      return answer(request)
    },
    whenTheme: (listener) => {
      const tell = () => listener(theme())
      new MutationObserver(tell).observe(page, { attributeFilter: ["data-theme"] })
      dark.addEventListener("change", tell)
      tell()
    }
  }
  frame.src = `${control}?${Date.now()}`
}

const start = async () => {
  startButton.disabled = true
  state.textContent = "Starting…"
  try {
    const nightshift = await import("./try/nightshift.js")
    const started = await nightshift.start(code.value)
    cluster?.clock.stop()
    cluster = started
    cluster.clock.speed = Number(document.querySelector("[name=try-speed]:checked").value)
    processes = []
    lost = []
    workers.replaceChildren()
    log.replaceChildren()
    for (let number = 0; number < processCount; number += 1) await startProcess(started)
    showActions()
    openControl()
    for (const hidden of [bench, frame.parentElement]) hidden.hidden = false
    state.textContent = "Running."
    startButton.textContent = "Restart with this program"
  } catch (error) {
    state.textContent = `The program did not start: ${error.message}`
  }
  startButton.disabled = false
}

startButton.addEventListener("click", start)
code.readOnly = false
example.addEventListener("change", async () => {
  const response = await fetch(new URL(`try/programs/${example.value}.js`, import.meta.url))
  code.value = await response.text()
  code.scrollTop = 0
  if (cluster !== undefined) await start()
})
for (const speed of document.querySelectorAll("[name=try-speed]"))
  speed.addEventListener("change", () => {
    if (cluster !== undefined) cluster.clock.speed = Number(speed.value)
  })
setInterval(show, 200)
