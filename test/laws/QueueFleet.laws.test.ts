import { Context, Effect, Layer, Redacted } from "effect"
import { Pods } from "../../src/cluster/Pods.js"
import * as PodsPg from "../../src/cluster/PodsPg.js"
import * as CellTag from "../../src/core/CellTag.js"
import * as Listener from "../../src/database/Listener.js"
import * as AdminFleet from "../../src/fleet/AdminFleet.js"
import { type CellServices, Cells } from "../../src/fleet/Cells.js"
import type { Cell, Fleet } from "../../src/fleet/Fleet.js"
import * as QueueFleet from "../../src/fleet/QueueFleet.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { Transactions } from "../../src/queue/Transactions.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"
import type { Ports } from "./Line.js"
import { queueLaws } from "./QueueLaws.js"

const cellOf = (name: string): Cell => ({
  name,
  database: Redacted.make(`postgres://${name}/app`),
  schema: undefined,
  listen: undefined,
  read: undefined,
  api: undefined,
  tag: CellTag.ofName(name),
  divided: new Map()
})

const [one, two] = [cellOf("one"), cellOf("two")]

/** Half of the laws have their queues in each cell. */
class HalvedQueues extends Map<string, ReadonlyArray<Cell>> {
  override get(queue: string) {
    const law = Number(/^law-(\d+)/.exec(queue)?.[1] ?? 0)
    return law % 2 === 0 ? [one] : [two]
  }
}

const fleet: Fleet = {
  cells: new Map([one, two].map((cell) => [cell.name, cell])),
  queues: new HalvedQueues(),
  main: one
}

const services = () =>
  Layer.fresh(
    Layer.mergeAll(QueuePg.layer, Transactions.layer, PodsPg.layer).pipe(
      Layer.provide(Listener.layerPolling),
      Layer.provideMerge(TestDatabase.layer)
    )
  ) as unknown as Layer.Layer<CellServices>

/**
 * What the chapters below do not use through the fleet: those of one cell. A transaction is tried in both, and a process is in
 * both.
 */
const ofOneCell = Layer.effectContext(
  Effect.gen(function* () {
    const cells = yield* Cells
    const [first, second] = [yield* cells.open(one), yield* cells.open(two)]
    const [inOne, inTwo] = [first, second].map(({ services }) => Context.get(services, Transactions).run)
    const run: typeof Transactions.Service.run = (effect) =>
      Effect.catchAll(inOne?.(effect) ?? Effect.die("no cell"), (error) =>
        String(error).includes("is in another cell") ? (inTwo?.(effect) ?? Effect.die("no cell")) : Effect.fail(error)
      ) as never
    const [pods, others] = [Context.get(first.services, Pods), Context.get(second.services, Pods)]
    return Context.make(Pods, {
      ...pods,
      beat: (...given) => Effect.zipRight(others.beat(...given), pods.beat(...given)),
      leave: (id) => Effect.zipRight(others.leave(id), pods.leave(id))
    }).pipe(
      (both) => Context.merge(first.services as unknown as Context.Context<Ports>, both),
      Context.add(Transactions, { run, runHandler: run })
    )
  })
)

const layer = Layer.mergeAll(QueueFleet.layer, AdminFleet.layer).pipe(
  Layer.provideMerge(ofOneCell),
  Layer.provide(Cells.layerFrom(fleet, services)),
  Layer.provideMerge(SteppableClock.layer),
  Layer.orDie
)

const clocks = { clock: "live", advance: SteppableClock.advance, setBack: SteppableClock.setBack } as const

queueLaws("the queue of a fleet of two cells", layer, clocks, [
  "enqueue",
  "dedupe",
  "claim",
  "finalize",
  "follow-up",
  "heartbeat, recovery and purge",
  "job administration",
  "logs of attempts",
  "search",
  "sort",
  "queue settings",
  "pauses and cool-downs",
  "rate limits",
  "limits and order by key",
  "retention",
  "depth"
])
