import { Effect } from "effect"
import { address } from "../../database/DatabaseUrl.js"
import type { Cell, Fleet } from "../../fleet/Fleet.js"
import * as FleetConfig from "../../fleet/FleetConfig.js"
import * as CommonOptions from "../CommonOptions.js"
import type { Finding } from "../doctor/Check.js"
import * as DoctorRun from "../doctor/DoctorRun.js"
import { SomeFailed } from "../Failure.js"
import * as Command from "../kit/Command.js"
import * as Input from "../kit/Input.js"
import * as Settings from "../Settings.js"
import { print, printable, table } from "../Terminal.js"
import * as CellChecks from "./CellChecks.js"
import { move } from "./MoveCommand.js"

/** No cell has this name. */
const allCells = "all cells"

/** Cells that are checked at a time: each check opens connections. */
const atOnce = 8

const queuesOf = (fleet: Fleet, cell: Cell) => [
  ...[...fleet.queues].flatMap(([queue, cells]) =>
    cells.includes(cell) ? [cells.length > 1 ? `${queue} (by key)` : queue] : []
  ),
  ...(fleet.main === cell ? ["all others"] : [])
]

const list = Command.make({
  about: "List the cells of the fleet and their queues. Asks no server.",
  options: { json: CommonOptions.json },
  examples: { "nightshift fleet list": "list the cells of fleet.yaml" },
  run: ({ json }) =>
    Effect.gen(function* () {
      const fleet = yield* FleetConfig.required
      const cells = [...fleet.cells.values()].map((cell) => ({
        name: cell.name,
        database: address(cell.database),
        schema: cell.schema ?? null,
        read: cell.read === undefined ? null : address(cell.read),
        api: cell.api ?? null,
        queues: queuesOf(fleet, cell)
      }))
      const rows = cells.map(({ api, database, name, queues, schema }) => [
        name,
        schema === null ? database : `${database} (${schema})`,
        api ?? "-",
        queues.join(", ") || "-"
      ])
      yield* print(json, cells, table(["CELL", "DATABASE", "API", "QUEUES"], rows, { wraps: true }))
    }).pipe(Settings.configured({}))
})

interface CellFinding extends Finding {
  readonly cell: string
}

const examine = (fleet: Fleet) =>
  Effect.gen(function* () {
    const facts: Array<CellChecks.CellFacts> = []
    const perCell = yield* Effect.forEach(
      fleet.cells.values(),
      (cell) =>
        DoctorRun.ofDatabase([CellChecks.placement(fleet, cell, (found) => facts.push(found))]).pipe(
          Settings.configured({ NIGHTSHIFT_CELL: cell.name }),
          Effect.map((findings) => findings.map((finding): CellFinding => ({ cell: cell.name, ...finding })))
        ),
      { concurrency: atOnce }
    )
    const all = CellChecks.ofFleet(fleet, facts).map((finding): CellFinding => ({ cell: allCells, ...finding }))
    return [...perCell.flat(), ...all]
  })

/** Without `all`, a cell's passed checks take one line. */
const summarized = (findings: ReadonlyArray<CellFinding>, all: boolean): ReadonlyArray<CellFinding> => {
  const [first] = findings
  const passed = findings.filter(({ status }) => status === "ok")
  if (all || first === undefined || first.cell === allCells || passed.length === 0) return findings
  const shown = findings.filter(({ check, status }) => status !== "ok" || check === "replica")
  const server = passed.find(({ check }) => check === "database")?.found ?? ""
  const found = `${passed.length} of ${findings.length} checks passed. ${server}`.trim()
  return [{ cell: first.cell, check: "", status: "ok", found }, ...shown]
}

const rowsOf = ({ cell, check, fix, found, status }: CellFinding) => [
  [status, cell, check, printable(found)],
  ...(fix === undefined ? [] : [["", "", "", `-> ${printable(fix)}`]])
]

const doctor = Command.make({
  about: "Check every cell like `doctor`, and compare the cells with the fleet.",
  options: {
    all: Input.flag("Print the checks that passed as well."),
    json: CommonOptions.json
  },
  examples: {
    "nightshift fleet doctor": "find problems of all cells and their fixes",
    "nightshift fleet doctor --all": "print the checks that passed as well"
  },
  run: ({ all, json }) =>
    Effect.gen(function* () {
      const fleet = yield* FleetConfig.required
      const findings = yield* examine(fleet)
      const parts = [...fleet.cells.keys(), allCells].map((name) => findings.filter(({ cell }) => cell === name))
      const rows = parts.flatMap((part) => summarized(part, all)).flatMap(rowsOf)
      const text = table(["", "CELL", "CHECK", "FOUND"], rows, { wraps: true })
      yield* print(json, { ok: !DoctorRun.hasFailed(findings), findings }, text)
      const failed = findings.filter(({ status }) => status === "fail").length
      if (failed > 0) return yield* new SomeFailed({ reasons: [`${failed} of ${findings.length} checks failed.`] })
    }).pipe(Settings.configured({}))
})

export const command = Command.group("List and check the cells of a fleet, and move queues between them.", {
  list,
  doctor,
  move
})
