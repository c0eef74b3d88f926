import { Effect } from "effect"
import { Pods } from "../../cluster/Pods.js"
import { Database, within } from "../../database/Database.js"
import { identityOfTables } from "../../fleet/Cells.js"
import { type Cell, cellsOf, type Fleet, namesOf, place } from "../../fleet/Fleet.js"
import { wayOf } from "../../fleet/move/Mover.js"
import { Events } from "../../queue/events/Events.js"
import { JobSearch } from "../../queue/search/JobSearch.js"
import { type QueueSettings, Queues } from "../../queue/settings/QueueSettings.js"
import * as RateShare from "../../queue/settings/RateShare.js"
import { ClusterConfig } from "../../worker/ClusterConfig.js"
import { type Check, type Finding, fail, ok, warn } from "../doctor/Check.js"
import { counted } from "../Terminal.js"

// What a cell contains, compared with where the fleet places queues and keys.

/** Keys of a queue that are read in each cell. */
const maxKeys = 20_000

/** What the comparison of cells needs of one cell. */
export interface CellFacts {
  readonly cell: Cell
  /** Identifies the database and the schema. */
  readonly identity: string
  /** Releases of its live processes. */
  readonly releases: ReadonlySet<string>
  /** Keys of unfinished jobs, by queue that is divided by key. */
  readonly keys: ReadonlyMap<string, number>
  /** Rate limits of the queues that are divided by key. */
  readonly rates: ReadonlyMap<string, NonNullable<QueueSettings["rate"]>>
}

/** Queues that are divided over several cells, of which this is one. */
const dividedIn = (fleet: Fleet, cell: Cell) =>
  [...fleet.queues].filter(([, cells]) => cells.length > 1 && cells.includes(cell)).map(([queue]) => queue)

const elsewhere = (fleet: Fleet, cell: Cell) => (queue: string) => !cellsOf(fleet, queue).includes(cell)

const readKeys = (queues: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const database = yield* Database
    const { schema, sql } = database
    const distinct = sql<{ queue: string; key: string }>`select queue, key from ${sql(`${schema}.job`)}
      where finished_at is null and key is not null and queue = any(${[...queues]}::text[])
      group by queue, key limit ${maxKeys}`
    return queues.length === 0 ? [] : yield* within(database, "5 seconds")(distinct)
  })

/** Subscribers that get nothing: their event was never published in this cell, and the fleet publishes in another one. */
const unreached = (fleet: Fleet, cell: Cell) =>
  Effect.gen(function* () {
    const events = yield* Events
    const found = cell === fleet.main ? [] : yield* events.subscriptions
    const names = [...new Set(found.map(({ event }) => event))]
    const silent = yield* Effect.filter(names, (name) =>
      Effect.map(events.list({ name, limit: 1 }), ({ events }) => events.length === 0)
    )
    return silent.map((name) =>
      warn(
        `No event ${name} was published here, and its subscribers (${found.flatMap(({ event, subscriber }) => (event === name ? [subscriber] : [])).join(", ")}) get none: programs that are connected to the fleet publish in ${fleet.main.name}.`,
        `Start the workers of these subscribers with \`--cell ${fleet.main.name}\` and remove them here with \`nightshift events unsubscribe ${name} <subscriber> --cell ${cell.name}\`, or publish in this cell.`
      )
    )
  })

/** Compares the queues and keys of a cell with the fleet. `report` receives what the comparison of all cells needs. */
export const placement = (fleet: Fleet, cell: Cell, report: (facts: CellFacts) => void): Check => ({
  name: "placement",
  run: Effect.gen(function* () {
    const { lease } = yield* ClusterConfig
    const live = yield* Effect.flatMap(Pods, (pods) => pods.live(lease))
    const counts = yield* Effect.flatMap(JobSearch, (search) => search.counts)
    const settings = yield* Effect.flatMap(Queues, (queues) => queues.all)
    const divided = dividedIn(fleet, cell)
    const keys = yield* readKeys(divided)
    const served = new Set(live.flatMap(({ queues }) => queues))
    const isElsewhere = elsewhere(fleet, cell)
    const stray = counts.flatMap(({ counts: { pending, retrying, running, scheduled }, queue }) => {
      const left = pending.value + retrying.value + running.value + scheduled.value
      const way = wayOf(queue)
      if (left > 0 && way !== undefined)
        return warn(
          `${counted(left, "job")} of queue ${way.queue} ${left === 1 ? "waits" : "wait"} for the end of an interrupted move from ${way.from} to ${way.to}. None of them starts.`,
          cellsOf(fleet, way.queue).some(({ name }) => name === way.to)
            ? `Finish it with \`nightshift fleet move ${way.queue}\`.`
            : `Run the interrupted command again, with ${way.to} among the cells of --to. Or go back with \`nightshift fleet move ${way.queue}\`.`
        )
      if (left === 0 || !isElsewhere(queue)) return []
      return warn(
        `${counted(left, "unfinished job")} of queue ${queue} ${left === 1 ? "is" : "are"} here, but the fleet places it in ${namesOf(cellsOf(fleet, queue))}.`,
        `Move them with \`nightshift fleet move ${queue}\`, or correct the fleet.`
      )
    })
    const needless = [...served].filter(isElsewhere)
    const unserved = [...fleet.queues.keys()].filter((queue) => !isElsewhere(queue) && !served.has(queue))
    const misplaced = divided.flatMap((queue) => {
      const found = keys.filter((row) => row.queue === queue)
      const wrong = found.filter(({ key }) => place(fleet, { queue, key }) !== cell).length
      return wrong === 0
        ? []
        : warn(
            `${wrong} of ${counted(found.length, "key")} of queue ${queue} belong in another cell: new jobs of these keys are stored there.`,
            `Their order is kept within a cell only. Move them with \`nightshift fleet move ${queue}\`.`
          )
    })
    report({
      cell,
      identity: yield* identityOfTables,
      releases: new Set(live.map(({ version }) => version)),
      keys: new Map(divided.map((queue) => [queue, keys.filter((row) => row.queue === queue).length])),
      rates: new Map(
        settings.flatMap(({ name, rate }) =>
          rate === undefined || !divided.includes(name) ? [] : [[name, rate] as const]
        )
      )
    })
    const found = [
      ...stray,
      ...misplaced,
      ...(yield* unreached(fleet, cell)),
      ...(needless.length === 0
        ? []
        : [
            warn(
              `Processes serve ${needless.join(", ")}, which the fleet places in other cells: no producer stores jobs for them here.`,
              "Remove these queues from NIGHTSHIFT_QUEUES of the processes, or correct the fleet."
            )
          ]),
      ...(unserved.length === 0
        ? []
        : [
            warn(
              `No live process serves ${unserved.join(", ")}.`,
              `Start one with \`nightshift serve --cell ${cell.name} --queues ${unserved.join(",")}\`.`
            )
          ])
    ]
    return found.length > 0
      ? found
      : [ok(`${counted(live.length, "process is", "processes are")} live; queues are where the fleet places them.`)]
  })
})

/** A cell knows nothing of the others, so a rate limit holds in each of them. Says what that is together. */
const limits = (fleet: Fleet, facts: ReadonlyArray<CellFacts>) =>
  [...fleet.queues].flatMap(([queue, cells]): ReadonlyArray<Finding> => {
    const rates = cells.flatMap((cell) => {
      const known = facts.find((each) => each.cell === cell)
      return known === undefined ? [] : [{ cell, rate: known.rates.get(queue) }]
    })
    const texts = rates.map(({ rate }) => (rate === undefined ? "none" : RateShare.text(rate)))
    const rate = rates[0]?.rate
    if (cells.length < 2 || texts.every((text) => text === "none")) return []
    const parts = rates.map(({ cell }, place) => `${cell.name} ${texts[place]}`).join(", ")
    const finding =
      rate === undefined || new Set(texts).size > 1
        ? warn(
            `Rate limits of queue ${queue} differ: ${parts}.`,
            "A rate limit holds in each cell. Set the same share of the whole in all of them."
          )
        : ok(
            `Rate limit of queue ${queue}: ${texts[0]} in each of ${rates.length} cells, ${RateShare.text({ jobs: rate.jobs * rates.length, per: rate.per })} together.`
          )
    return [{ check: "limits", ...finding }]
  })

/** Compares the cells with each other. */
export const ofFleet = (fleet: Fleet, facts: ReadonlyArray<CellFacts>): ReadonlyArray<Finding> => {
  const twins = facts.flatMap(({ cell, identity }, index) => {
    const other = facts.slice(0, index).find((each) => each.identity === identity)
    return other === undefined
      ? []
      : [
          {
            check: "cells",
            ...fail(
              `Cells ${other.cell.name} and ${cell.name} are the same database and schema.`,
              "Give each cell its own database or schema."
            )
          }
        ]
  })
  const releases = new Set(facts.flatMap((each) => [...each.releases]))
  const versions =
    releases.size < 2
      ? []
      : [
          {
            check: "versions",
            ...warn(
              `Live processes run ${[...releases].sort().join(", ")}: ${facts.map((each) => `${each.cell.name} ${[...each.releases].sort().join(" and ") || "none"}`).join(", ")}.`,
              "Finish the upgrade of all cells."
            )
          }
        ]
  const balance = [...fleet.queues].flatMap(([queue, cells]) => {
    if (cells.length < 2) return []
    const counts = cells.map((cell) => ({ cell, keys: facts.find((each) => each.cell === cell)?.keys.get(queue) }))
    const total = counts.reduce((sum, { keys = 0 }) => sum + keys, 0)
    const shares = counts.map(({ cell, keys }) =>
      keys === undefined
        ? `${cell.name} unknown`
        : `${cell.name} ${keys}${keys >= maxKeys ? " or more" : ""} (${total === 0 ? 0 : Math.round((100 * keys) / total)} %)`
    )
    return [{ check: "balance", ...ok(`Keys of unfinished jobs of queue ${queue}: ${shares.join(", ")}.`) }]
  })
  return [...twins, ...versions, ...balance, ...limits(fleet, facts)]
}
