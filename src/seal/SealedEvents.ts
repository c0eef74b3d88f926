import { Effect } from "effect"
import { after } from "../codec/DataKeys.js"
import { limits } from "../core/StoredJob.js"
import { type Events, InvalidEvent, type NewEvent } from "../queue/events/Events.js"
import { all, type Sealer, sealing } from "./Sealer.js"

// Events over a store with sealed values. Subscribers with `match` or `by`, and waits with `match`, compare values in the database:
// the data of their events must stay as it is.

const comparedBy = (subscriber: string) =>
  `cannot be sealed, because the subscriber "${subscriber}" selects or joins events by their values`

const advice = (event: string) =>
  `Name the event in NIGHTSHIFT_SEAL_PLAIN_EVENTS or in \`plainEvents\` of the codec of all processes: ${JSON.stringify(event)}`

/** Events over a store with sealed values. */
export const eventsOver = (sealer: Sealer, inner: typeof Events.Service): typeof Events.Service => {
  const plain = sealer.codec.plainEvents ?? []
  const isSealed = (event: string) =>
    sealer.seals && !plain.some((name) => (name.endsWith("*") ? event.startsWith(name.slice(0, -1)) : event === name))

  /** Fails if a subscriber compares values that would be sealed: it would get none of the events. */
  const check = (events: ReadonlyArray<NewEvent>) =>
    Effect.gen(function* () {
      const names = new Set(events.map(({ name }) => name).filter(isSealed))
      if (names.size === 0) return
      const comparing = (yield* inner.subscriptions).find(({ compares, event }) => compares && names.has(event))
      if (comparing === undefined) return
      const index = events.findIndex(({ name }) => name === comparing.event)
      const reason = `${comparedBy(comparing.subscriber)}. ${advice(comparing.event)}`
      return yield* new InvalidEvent({ index, field: "data", reason })
    })

  const sealed = (events: ReadonlyArray<NewEvent>) =>
    Effect.zipRight(
      check(events),
      sealing(() =>
        all(
          events.map((event) =>
            isSealed(event.name)
              ? after(sealer.value(event.data, limits.resultBytes), (data) => ({ ...event, data }))
              : event
          )
        )
      )
    )

  return {
    ...inner,
    publish: (events) => Effect.flatMap(sealed(events), inner.publish),
    publishInside: (run, events) => Effect.flatMap(sealed(events), (each) => inner.publishInside(run, each)),
    get: (id) => Effect.flatMap(inner.get(id), sealer.read),
    list: (request) => Effect.flatMap(inner.list(request), sealer.read),
    wait: (wait) =>
      wait.match.paths.length > 0 && isSealed(wait.event)
        ? Effect.die(
            new Error(
              `step.waitForEvent cannot match values of the event "${wait.event}", because its data is sealed. ${advice(wait.event)}.`
            )
          )
        : Effect.flatMap(inner.wait(wait), sealer.use)
  }
}
