// The page that runs Nightshift in the browser.
import { readFileSync } from "node:fs"
import { escape } from "../highlight.mjs"

/** The programs to choose from, by file. */
export const programs = {
  order: "An order: jobs, an event, a workflow",
  retries: "Retries, timeouts and dead jobs",
  keys: "Order by key, and a rate limit",
  schedules: "Schedules",
  undo: "A workflow that undoes its steps"
}

export const programOf = (name) => readFileSync(new URL(`programs/${name}.js`, import.meta.url), "utf8")

const options = Object.entries(programs).map(([name, title]) => `<option value="${name}">${escape(title)}</option>`)
const speeds = [1, 10, 60].map(
  (speed) =>
    `<label><input type="radio" name="try-speed" value="${speed}"${speed === 1 ? " checked" : ""}> ${speed}x</label>`
)

/** The page. `kilobytes` is the size of what it loads when it is started. */
export const tryPage = ({ kilobytes }) => ({
  description: "Nightshift in your browser: workers, retries, workflows and Mission Control, without an installation.",
  title: "Try it in the browser",
  body: `<h1>Try it in the browser</h1>
<p class="about">Nightshift runs in this page: two worker processes, a program that you can edit, and Mission Control. The tables are in the memory of this tab instead of PostgreSQL. Kill a worker while it runs a job, and another one runs the job again.</p>
<noscript><p class="without">Scripts are off. With scripts, this page runs the program below, has buttons that enqueue jobs, publish an event, send a signal and kill a worker, and shows Mission Control. To run it on your machine, read <a href="learn/getting-started.html">Getting started</a>.</p></noscript>
<div class="workshop"><div class="desk">
<p class="pick"><label for="try-example">Program</label> <select id="try-example" autocomplete="off">${options.join("")}</select></p>
<p class="go"><button type="button" class="button" id="try-start">Start (loads ${kilobytes} kB)</button> <span id="try-state" role="status"></span></p>
<div id="try-bench" hidden>
<h2>Do something</h2>
<div id="try-actions" class="acts"></div>
<fieldset class="speed"><legend>Speed of the clock</legend>${speeds.join(" ")}</fieldset>
<h2>Workers</h2>
<ul id="try-workers" class="workers"></ul>
<ol id="try-log" class="log" aria-live="polite" aria-label="What happened"></ol>
</div>
<label class="hidden" for="try-code">Program text</label>
<textarea id="try-code" readonly spellcheck="false" autocapitalize="off" autocomplete="off">${escape(programOf("order"))}</textarea>
</div>
<section class="mission" aria-label="Mission Control" hidden><iframe name="mission-control" title="Mission Control"></iframe></section>
</div>
<p class="differences">What differs from production: the tables are in memory and end with this page, the processes share one thread, and their heartbeats and leases are short, so that a killed worker is replaced within seconds. <a href="learn/getting-started.html">Get started</a> with PostgreSQL, or read <a href="operate/faults.html">what happens when something fails</a>.</p>`
})
