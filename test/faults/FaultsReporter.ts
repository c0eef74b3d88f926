import { readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import type { Reporter, TestCase, TestModule, Vitest } from "vitest/node"
import { type FaultRow, update } from "../../scripts/matrix/faults-page.mjs"
import * as DurationText from "../../src/core/DurationText.js"
import { defaults, type FaultCase, pace, sumOf } from "./FaultCase.js"

/** What a case leaves for the reporter. */
export interface FaultMeta {
  fault?: Omit<FaultCase, "run">
  observed?: { readonly recoveryMillis: number; readonly saw: ReadonlyArray<string>; readonly measured?: string }
  unavailable?: string
}

const page = fileURLToPath(new URL("../../docs/operate/faults.md", import.meta.url))

const metaOf = (test: TestCase) => test.meta() as FaultMeta

const limitOf = ({ recoveryLimit }: Omit<FaultCase, "run">) =>
  recoveryLimit.length === 0
    ? "none needed"
    : `${recoveryLimit.map((name) => `\`${name}\``).join(" + ")} (${DurationText.format(sumOf(recoveryLimit, defaults))})`

const heldOf = (test: TestCase, { unavailable }: FaultMeta) => {
  if (unavailable !== undefined) return "not run"
  return test.result().state === "passed" ? "yes" : "**no**"
}

const rowOf = (test: TestCase): ReadonlyArray<FaultRow> => {
  const meta = metaOf(test)
  if (meta.fault === undefined) return []
  const { fault, observed } = meta
  const saw =
    observed === undefined
      ? (meta.unavailable ?? "")
      : [...observed.saw, observed.measured ?? ""].filter((text) => text !== "").join("; ")
  return [
    {
      group: fault.group,
      fault: fault.name,
      promise: fault.promise,
      held: heldOf(test, meta),
      recovery: observed === undefined ? "" : `${(observed.recoveryMillis / 1_000).toFixed(1)} s`,
      limit: limitOf(fault),
      sees: saw === "" ? fault.operatorSees : `${fault.operatorSees}. Seen: ${saw}`
    }
  ]
}

/** Prints how the faults went. With `-u` it writes the tables of docs/operate/faults.md. */
export default class FaultsReporter implements Reporter {
  private isWriting = false

  onInit(vitest: Vitest): void {
    // The page shows what happens with the usual settings of the cases.
    this.isWriting = vitest.config.snapshotOptions.updateSnapshot === "all" && pace === 1
  }

  onTestCaseResult(test: TestCase): void {
    const meta = metaOf(test)
    if (meta.fault === undefined) return
    const took = meta.observed === undefined ? "" : `${(meta.observed.recoveryMillis / 1_000).toFixed(1)} s`
    process.stdout.write(`${heldOf(test, meta).padEnd(8)} ${took.padStart(7)}  ${test.fullName}\n`)
    for (const { message } of test.result().errors ?? []) process.stdout.write(`${message}\n`)
    for (const line of meta.observed?.saw ?? []) process.stdout.write(`${" ".repeat(18)}${line}\n`)
  }

  onTestRunEnd(modules: ReadonlyArray<TestModule>): void {
    const tests = modules
      .flatMap((module) => [...module.children.allTests()])
      .filter((test) => metaOf(test).fault !== undefined)
    if (!this.isWriting || tests.length === 0) return
    // A run of some cases keeps the rows of the others.
    const all = modules.flatMap((module) => [...module.children.allTests()])
    const isWholeRun = tests.length === all.length
    writeFileSync(page, update(readFileSync(page, "utf8"), tests.flatMap(rowOf), { isWholeRun }))
  }
}
