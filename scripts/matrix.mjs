// Runs Nightshift on PostgreSQL 14 to 18 and behind poolers and proxies, through crashes and failovers, with real
// processes. `npm run test:matrix -- pgbouncer postgres-14` runs these set-ups; without names it runs all of them. Prints
// a table and exits 1 if one failed. With `-u` it also writes the rows of docs/operate/faults.md.
import { readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { rowOf } from "./matrix/faults.mjs"
import { update } from "./matrix/faults-page.mjs"
import { setups } from "./matrix/setups.mjs"

const page = fileURLToPath(new URL("../docs/operate/faults.md", import.meta.url))
const names = process.argv.slice(2).filter((name) => name !== "-u")
const isWriting = process.argv.includes("-u")
const unknown = names.filter((name) => !(name in setups))
if (unknown.length > 0) {
  console.error(`Unknown set-up ${unknown.join(", ")}. Valid names are ${Object.keys(setups).join(", ")}.`)
  process.exit(2)
}

/** Writes after every set-up: a run of all takes long and may be stopped. */
const write = (name, result) => {
  const row = rowOf(name, result)
  if (isWriting && row !== undefined)
    writeFileSync(page, update(readFileSync(page, "utf8"), [row], { isWholeRun: false }))
}

let failed = false
console.log("| set-up | on | result | time |\n| --- | --- | --- | --- |")
for (const name of names.length > 0 ? names : Object.keys(setups)) {
  const begun = performance.now()
  const row = (on, result) =>
    console.log(`| \`${name}\` | ${on} | ${result} | ${Math.round((performance.now() - begun) / 1000)} s |`)
  try {
    const seen = await setups[name]()
    row(seen.on, `held: ${seen.saw}`)
    write(name, { ...seen, held: "yes" })
  } catch (error) {
    failed = true
    const [reason] = error.message.split("\n")
    row("-", `FAILED: ${reason}`)
    write(name, { held: error.isMissing === true ? "not run" : "**no**", saw: reason })
    console.error(error)
  }
}
process.exit(failed ? 1 : 0)
