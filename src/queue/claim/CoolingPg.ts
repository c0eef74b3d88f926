import { Clock, Duration, Effect } from "effect"
import type { Database } from "../../database/Database.js"
import { mapErrors } from "../../database/DatabaseError.js"
import type { AttemptEnd } from "../AttemptEnd.js"
import type { FinalizeListeners } from "../FinalizePg.js"
import * as SqlArrays from "../SqlArrays.js"
import { channel, type KnownQueues } from "../settings/KnownQueues.js"
import * as QueueSql from "../settings/QueueSql.js"
import type { Wakeups } from "../Wakeups.js"
import type { ClaimCursors } from "./ClaimCursor.js"

const afterOf = ({ end }: AttemptEnd) => (end._tag === "Again" ? end.cools?.after : undefined)
const scopeOf = ({ end }: AttemptEnd) => (end._tag === "Again" ? end.cools?.scope : undefined)

/** Effects of ends beyond their own jobs: cool-downs of a queue or key, the end of a cool-down, freed keys. */
export const make = (
  { schema, sql }: typeof Database.Service,
  known: typeof KnownQueues.Service,
  wakeups: typeof Wakeups.Service,
  cursors: ClaimCursors
): Pick<FinalizeListeners, "onCooling" | "onEnded"> => {
  const statements = QueueSql.make(schema)

  const cool = (statement: string, ends: ReadonlyArray<AttemptEnd>, now: number, wait: string | null) =>
    Effect.gen(function* () {
      if (ends.length === 0) return
      const held = [
        SqlArrays.ofPlain(ends.map(({ id }) => id)),
        SqlArrays.ofPlain(ends.map(({ lease }) => lease)),
        SqlArrays.ofNumbers(ends.map(afterOf)),
        now
      ]
      yield* mapErrors(sql.unsafe(statements.declareHeld, held))
      const cooled = yield* mapErrors(sql.unsafe<{ name: string }>(statement, [...held, channel(schema), wait]))
      for (const { name } of cooled) known.forget(name)
    })

  /** Records that a job succeeded after a cool-down, which starts the calm period. Never fails. */
  const calm = Effect.fnUntraced(
    function* (queues: ReadonlyArray<string>, now: number) {
      for (const queue of queues) {
        const row = yield* known.get(queue, Duration.infinity)
        if (row === undefined || row.throttleAttempts === 0 || row.calmSince !== undefined) continue
        if ((row.throttledUntil ?? 0) > now) continue
        yield* mapErrors(sql.unsafe(statements.calm, [SqlArrays.ofTexts([queue]), now]))
        known.forget(queue)
      }
    },
    Effect.catchAll((error) =>
      Effect.logDebug("could not record the end of a cool-down; the next completed job retries it", error)
    )
  )

  return {
    onCooling: (ends, wait) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        yield* cool(
          statements.coolQueue,
          ends.filter((end) => scopeOf(end) === "queue"),
          now,
          wait
        )
        yield* cool(
          statements.coolKeys,
          ends.filter((end) => scopeOf(end) === "key"),
          now,
          wait
        )
      }),
    // Not `Effect.gen`: see FinalizePg.
    onEnded: Effect.fnUntraced(function* (ends: ReadonlyArray<AttemptEnd>, inTransaction: boolean) {
      const free = new Set<string>()
      const done = new Set<string>()
      for (const { end, key, queue } of ends) {
        if (queue === undefined) continue
        if (end._tag === "Done") done.add(queue)
        if (key !== undefined && cursors.freed(queue, key)) free.add(queue)
      }
      // Keys are free only after the commit; the caller wakes workers then.
      if (inTransaction) return
      yield* Effect.forEach(free, wakeups.wake, { discard: true })
      if (done.size > 0) yield* calm([...done], yield* Clock.currentTimeMillis)
    })
  }
}
