// Runs Nightshift on PostgreSQL 14 to 18 and behind poolers and proxies, through crashes and failovers, with real
// processes. `npm run test:matrix -- pgbouncer postgres-14` runs these set-ups, without names all of them. Prints a
// table and exits 1 if one failed.
import { setups } from "./matrix/setups.mjs"

const names = process.argv.slice(2)
const unknown = names.filter((name) => !(name in setups))
if (unknown.length > 0) {
  console.error(`Unknown set-up ${unknown.join(", ")}. Valid names are ${Object.keys(setups).join(", ")}.`)
  process.exit(2)
}

let failed = false
console.log("| set-up | on | result | time |\n| --- | --- | --- | --- |")
for (const name of names.length > 0 ? names : Object.keys(setups)) {
  const begun = performance.now()
  const row = (on, result) =>
    console.log(`| \`${name}\` | ${on} | ${result} | ${Math.round((performance.now() - begun) / 1000)} s |`)
  try {
    const { on, saw } = await setups[name]()
    row(on, `held: ${saw}`)
  } catch (error) {
    failed = true
    row("-", `FAILED: ${error.message.split("\n")[0]}`)
    console.error(error)
  }
}
process.exit(failed ? 1 : 0)
