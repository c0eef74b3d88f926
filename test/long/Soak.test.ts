import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Curves from "../soak/Curves.js"
import * as Soak from "../soak/Soak.js"
import { root } from "../support/Nightshift.js"
import { scale } from "../support/Scale.js"

// `npm run soak` runs this file with more minutes and prints its lines.

const minutes = scale("SOAK_MINUTES", 1)
const [rate, seed] = [scale("SOAK_RATE", 20), scale("SOAK_SEED", 1)]
const isCommand = process.env.SOAK_MINUTES !== undefined
const print = (line: string) => void process.stdout.write(`${line}\n`)

/** Writes the report to a folder that is not committed. */
const keep = (report: Soak.SoakReport) => {
  const folder = join(root, "results")
  mkdirSync(folder, { recursive: true })
  const file = join(folder, `soak-${new Date().toISOString().replace(/[:.]/g, "-")}.json`)
  writeFileSync(file, JSON.stringify(report, null, 2))
  return file
}

it.scopedLive(
  "a mixed load loses nothing and uses no more and more memory or disk while processes are killed",
  () =>
    Effect.gen(function* () {
      const report = yield* Soak.run({ minutes, rate, seed, print: isCommand ? print : () => {} })
      const grown = report.curves.filter(({ verdict }) => verdict === "not flat").map(({ name }) => name)
      if (isCommand) {
        print(`\n${Curves.table(report.curves).join("\n")}\n`)
        print(`checked: ${JSON.stringify(report.checked)}`)
        for (const [answer, count] of Object.entries(report.refusals)) print(`${count} times: ${answer}`)
        print(`${report.faults.length} faults, ${report.violations.length} broken promises, not flat: ${grown.length}`)
        print(`report: ${keep(report)}`)
      }
      expect(report.violations).toEqual([])
      expect(grown).toEqual([])
      // Both faults took place, and every kind of load was checked.
      for (const fault of [/killed/, /cut [1-9]\d* connections/]) {
        expect(report.faults.filter((text) => fault.test(text)).length).toBeGreaterThan(0)
      }
      const kinds = ["beat", "delivered", "doomed", "file_arrived", "flaky", "once", "order", "ordered", "work"]
      expect(Object.keys(report.checked).sort()).toEqual(kinds)
    }),
  (minutes + 15) * 60_000
)
