import { Effect } from "effect"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { checkPayload } from "../enqueue/JobRequests.js"
import type { Kinds } from "../Kinds.js"
import { type Events, InvalidEvent, type NewEvent } from "./Events.js"
import { matches } from "./Match.js"

/** Checks the data of an event by the schemas of the subscribers that it matches, for a publisher without the code of the event. */
export const check = (
  events: typeof Events.Service,
  kinds: typeof Kinds.Service,
  { data, name }: NewEvent
): Effect.Effect<void, InvalidEvent | DatabaseError> =>
  Effect.gen(function* () {
    const subscribers = (yield* events.subscriptions).filter(
      ({ event, match }) => event === name && (match === undefined || matches(match, data))
    )
    if (subscribers.length === 0) return
    const known = new Map((yield* kinds.all).map((kind) => [kind.name, kind]))
    for (const { subscriber, window } of subscribers) {
      const kind = known.get(subscriber)
      if (kind === undefined) continue
      // The kind keeps its newer version, and the schema of lists, when a release that added `debounce` is rolled back.
      const [payload, version] = window === undefined ? [data, 1] : [[data], 2]
      yield* Effect.catchTag(checkPayload(kind, payload, version), "InvalidJob", ({ field, reason }) => {
        const text = reason
          .replace(/^does not match the schema of the kind "[^"]*": /, "")
          .replace(/\. Fix it, or .*$/s, "")
          .replace(window === undefined ? /(^|; )payload/g : /(^|; )payload(?:\[0\])?/g, "$1data")
        const at = field.replace(window === undefined ? /^payload/ : /^payload(\[0\])?/, "data")
        return new InvalidEvent({
          index: 0,
          field: at,
          reason: `does not match the subscriber "${subscriber}": ${text}`
        })
      })
    }
  })
