import { Duration, Effect, Layer } from "effect"
import * as CoalescingCache from "../core/CoalescingCache.js"
import { outside } from "../database/Transaction.js"
import { Events, InvalidEvent, type NewEvent } from "../queue/events/Events.js"
import { Cells, on } from "./Cells.js"
import type { Cell } from "./Fleet.js"
import * as Placing from "./Placing.js"

// Events of programs that use the whole fleet. An event and its jobs are stored in one transaction, so they belong to one cell:
// the default one. Subscribers of other cells get the events that are published there.

/** Subscribers of other cells are read only to refuse a mistake: rarely, and without waiting long for a cell that is down. */
const freshFor = Duration.seconds(10)
const patience = Duration.seconds(1)

const make = Effect.gen(function* () {
  const cells = yield* Cells
  const { main } = cells.fleet
  const others = [...cells.fleet.cells.values()].filter((cell) => cell !== main)
  const inMain = <A, E>(use: (events: typeof Events.Service) => Effect.Effect<A, E>) =>
    on(cells, main)(Effect.flatMap(Events, use))

  /** Subscribers of a cell, whatever transaction the caller has. */
  const subscribersIn = (cell: Cell) =>
    Effect.map(outside(on(cells, cell)(Effect.flatMap(Events, (events) => events.subscriptions))), (found) =>
      found.map((each) => ({ ...each, cell: cell.name }))
    )
  /** None if the cell does not answer. */
  const known = (cell: Cell) =>
    Effect.orElseSucceed(Effect.timeout(Effect.disconnect(subscribersIn(cell)), patience), () => [])
  const elsewhere = yield* CoalescingCache.refreshed(
    Effect.map(Effect.forEach(others, known, { concurrency: "unbounded" }), (found) => found.flat()),
    freshFor
  )

  /** Fails for an event whose subscribers would not get it. */
  const checkReached = (events: ReadonlyArray<NewEvent>) =>
    Effect.gen(function* () {
      const { value } = yield* elsewhere
      if (!events.some(({ name }) => value.some(({ event }) => event === name))) return
      const here = new Set((yield* subscribersIn(main)).map(({ event }) => event))
      for (const [index, { name }] of events.entries()) {
        const missed = value.filter(({ event }) => event === name)
        const [first] = missed
        if (first === undefined || here.has(name)) continue
        const list = missed.map(({ cell, subscriber }) => `${subscriber} in ${cell}`).join(", ")
        return yield* new InvalidEvent({
          index,
          field: "name",
          reason: `"${name}" has no subscriber in cell ${main.name}, where the events of a fleet are published, but ${list}. Start the workers of these subscribers in ${main.name}, or publish in one cell: connect({ fleet, cell: "${first.cell}" })`
        })
      }
    })

  return Events.of({
    publish: (events) =>
      Effect.gen(function* () {
        yield* checkReached(events)
        const fault = yield* Placing.faultOfTransaction(cells, main, "event")
        if (fault !== undefined)
          return yield* new InvalidEvent({ index: 0, field: "name", reason: `is of another cell: ${fault}` })
        return yield* inMain((port) => port.publish(events))
      }),
    publishInside: (run, events) =>
      Effect.gen(function* () {
        yield* checkReached(events)
        yield* Placing.checkOuter(cells, main, run, "event")
        return yield* inMain((port) => port.publishInside(run, events))
      }),
    subscribe: (kinds, subscriptions) => inMain((port) => port.subscribe(kinds, subscriptions)),
    unsubscribe: (event, kind) => inMain((port) => port.unsubscribe(event, kind)),
    subscriptions: inMain((port) => port.subscriptions),
    fill: inMain((port) => port.fill),
    closeWindows: inMain((port) => port.closeWindows),
    get: (id) => inMain((port) => port.get(id)),
    list: (request) => inMain((port) => port.list(request)),
    replay: (id, kind) => inMain((port) => port.replay(id, kind)),
    wait: (wait) => inMain((port) => port.wait(wait)),
    purge: (olderThan) => inMain((port) => port.purge(olderThan)),
    erase: (subject, act) => inMain((port) => port.erase(subject, act))
  })
})

/** Events in the default cell. */
export const layer: Layer.Layer<Events, never, Cells> = Layer.effect(Events, make)
