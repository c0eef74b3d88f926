// The first page. Its texts come from README.md and docs/, so that there is one copy of each.
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { all, plain, read, render, root, section } from "./markdown.mjs"

const documentOf = (file) => read(readFileSync(join(root, file), "utf8"))
const asset = (name) => readFileSync(new URL(`assets/${name}`, import.meta.url), "utf8")

/** Rows of the table in docs/operate/speed.md, including one in which Nightshift is slower. */
const rows = [
  "drain 30,000 jobs",
  "enqueue one by one, 256 callers: promises",
  "enqueue to handler start, idle system, p50 / p95",
  "the same, enqueued by another process",
  "500 keys, one job per key at a time",
  "drain with 1,000,000 jobs scheduled for tomorrow"
]

/** What the moving picture shows. Its style sheet marks one after another. */
const steps = [
  "Process A claims a job. The job is a row in PostgreSQL and stays there.",
  "<code>kill -9</code> ends process A in the middle of the job.",
  "PostgreSQL ends its session. Within seconds another process notices, and the job is pending again.",
  "Process B claims the job under a new lease and runs it from the start.",
  "The job is done. The crash did not use up an attempt."
]

const numbers = (tokens) => {
  const table = tokens.find(({ type }) => type === "table")
  const chosen = rows.map((name) => table.rows.find(([cell]) => cell.text === name))
  const missing = rows.filter((_, at) => chosen[at] === undefined)
  if (missing.length > 0)
    throw new Error(`docs/operate/speed.md has no row "${missing[0]}", which the first page shows.`)
  return [tokens.find(({ type }) => type === "paragraph"), { ...table, rows: chosen }]
}

/** The first page: its HTML, and the sentence that says what Nightshift is. */
export const home = (site) => {
  const page = "index.html"
  const from = (file) => (tokens) => render(tokens, { from: file, page, repository: site.repository }).html
  const readme = documentOf("README.md")
  const speed = documentOf("docs/operate/speed.md")
  const choosing = documentOf("docs/learn/choosing.md")
  const look = documentOf("docs/learn/getting-started.md").find(({ raw }) => raw.includes("nightshift demo"))
  if (look === undefined) throw new Error("docs/learn/getting-started.md must show `nightshift demo`.")
  const ofReadme = from("README.md")
  const ofSpeed = from("docs/operate/speed.md")
  const ofChoosing = from("docs/learn/choosing.md")

  const about = plain(readme.find(({ type }) => type === "paragraph").tokens).replaceAll("\n", " ")
  const end = about.indexOf(". ") + 1
  const program = section(readme, "A program")
  const second = program.findIndex((token) => token.type === "code" && token.text.includes('from "nightshift"'))
  const guarantees = section(readme, "Guarantees")
  const scene = asset("handover.svg")

  const body = `
<section class="hero">
<h1>${about.slice(0, end)}</h1>
<p>${about.slice(end + 1)}</p>
<p class="actions"><a class="button" href="learn/getting-started.html">Get started</a> <a class="button quiet" href="try.html">Try it in the browser</a> <a class="button quiet" href="contents.html">Documentation</a> <a class="button quiet" href="learn/choosing.html">Is it for you?</a></p>
${from("docs/learn/getting-started.md")([look])}
</section>
<figure class="scene"><input type="checkbox" id="pause" class="pause"><label for="pause">Pause the picture</label>${scene}<figcaption><ol>${steps.map((step) => `<li>${step}</li>`).join("")}</ol><p><a href="operate/faults.html">What happens when something else fails</a></p></figcaption></figure>
<section aria-labelledby="program"><h2 id="program">A program</h2>${ofReadme(program.slice(0, second + 1))}</section>
<section aria-labelledby="guarantees"><h2 id="guarantees">Guarantees</h2>${ofReadme(guarantees)}</section>
<section aria-labelledby="numbers"><h2 id="numbers">Numbers</h2>${ofSpeed(numbers(speed))}<p><a href="operate/speed.html">All results, and the targets that were missed</a></p></section>
<section class="who"><div><h2 id="choose">Choose Nightshift if</h2>${ofChoosing(section(choosing, "Choose Nightshift if"))}</div>
<div><h2 id="other">Choose something else if</h2>${ofChoosing(section(choosing, "Choose something else if"))}</div></section>`
  if (all(program, "code").length < 2) throw new Error("README.md must show a program in both forms.")
  return { body, description: about.slice(0, end) }
}
