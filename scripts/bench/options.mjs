// Options of `npm run bench`.
import { parseArgs } from "node:util"
import { rowIds, rows, titleOf, usualRowIds } from "./rows.mjs"
import { systemIds } from "./systems.mjs"

const help = `npm run bench [-- options]: compares Nightshift with its peers, on one PostgreSQL, in one session

  --jobs N        jobs of the short drain; every other count is a fixed multiple of it   [30000]
  --rounds R      rounds; each runs every system once, the medians are reported          [5]
  --only a,b      systems: ${systemIds.join(", ")}
  --rows a,b      rows, as below
  --limit S       seconds after which a drain is stopped and rated by its finished jobs [180]
  --json FILE     also write everything measured as JSON
  --charts FOLDER also draw growth, scaling and cost as SVG
  --help          this text

Rows:
${rows.map((row) => `  ${row.id.padEnd(15)} ${titleOf(row, 30_000)}`).join("\n")}

BENCH_DATABASE_URL   a PostgreSQL to use instead of an own one; its user must be allowed to create databases
`

const positive = (name, text) => {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1) throw new Error(`--${name} must be a whole number of at least 1`)
  return value
}

const chosen = (name, text, known, usual = known) => {
  if (text === undefined) return usual
  const wanted = text.split(",").filter((each) => each !== "")
  const unknown = wanted.filter((each) => !known.includes(each))
  if (unknown.length > 0)
    throw new Error(`--${name} got unknown values ${unknown.join(", ")}; valid values are ${known.join(", ")}`)
  return known.filter((each) => wanted.includes(each))
}

/** Returns the options, or undefined for --help. */
export const readOptions = (args) => {
  const { values } = parseArgs({
    args,
    options: {
      jobs: { type: "string", default: "30000" },
      rounds: { type: "string", default: "5" },
      only: { type: "string" },
      rows: { type: "string" },
      limit: { type: "string", default: "180" },
      json: { type: "string" },
      charts: { type: "string" },
      help: { type: "boolean", default: false }
    }
  })
  if (values.help) {
    console.log(help)
    return undefined
  }
  return {
    jobs: positive("jobs", values.jobs),
    rounds: positive("rounds", values.rounds),
    limit: positive("limit", values.limit),
    systems: chosen("only", values.only, systemIds),
    rows: chosen("rows", values.rows, rowIds, usualRowIds),
    charts: values.charts,
    json: values.json
  }
}
