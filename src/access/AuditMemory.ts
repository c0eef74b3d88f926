import { Clock, Duration, Effect, Layer } from "effect"
import { BadCursor } from "../core/BadCursor.js"
import { isId, makeGenerator } from "../core/Ids.js"
import * as Undo from "../core/Undo.js"
import { Audit, type AuditEntry, type AuditFilter, kept } from "./Audit.js"

const parsed = (text: string | null): unknown => (text === null ? undefined : JSON.parse(text))

const matches = (entry: AuditEntry, { act, since, target, until, who }: AuditFilter): boolean =>
  (who === undefined || entry.who === who) &&
  (act === undefined || entry.act === act || entry.act.startsWith(`${act}.`)) &&
  (target === undefined || entry.target === target) &&
  (since === undefined || entry.at >= since) &&
  (until === undefined || entry.at < until)

const make = Effect.gen(function* () {
  const ids = yield* makeGenerator
  let all: ReadonlyArray<AuditEntry> = []

  return Audit.of({
    record: (change) =>
      Effect.flatMap(Clock.currentTimeMillis, (at) => {
        const { after, before, reason, ...named } = kept(change)
        const states = { before: parsed(before), after: parsed(after) }
        const entry = { id: ids.plain(at), at, ...named, reason: reason ?? undefined, ...states }
        all = [entry, ...all]
        return Undo.remember(() => {
          all = all.filter((other) => other !== entry)
        })
      }),
    list: (filter, { cursor, limit }) =>
      Effect.suspend(() => {
        if (cursor !== undefined && !isId(cursor)) return new BadCursor({ cursor })
        const found = all.filter((entry) => matches(entry, filter) && (cursor === undefined || entry.id < cursor))
        const entries = found.slice(0, limit)
        return Effect.succeed({ entries, next: found.length > limit ? entries.at(-1)?.id : undefined })
      }),
    purge: (olderThan) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const left = all.filter(({ at }) => at >= now - Duration.toMillis(olderThan))
        const gone = all.length - left.length
        all = left
        return gone
      })
  })
})

export const layer: Layer.Layer<Audit> = Layer.effect(Audit, make)
