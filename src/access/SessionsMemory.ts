import { Clock, Duration, Effect, Layer, Option, Redacted } from "effect"
import type { Role } from "./Role.js"
import * as SessionSecret from "./SessionSecret.js"
import { Sessions } from "./Sessions.js"

interface SessionRow {
  readonly role: Role
  readonly bond: Buffer
  readonly until: number
}

const make = Effect.sync(() => {
  const rows = new Map<string, SessionRow>()
  const idOf = (secret: string) => SessionSecret.hash(secret).toString("hex")

  return Sessions.of({
    begin: (role, token, lasting) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const secret = SessionSecret.make()
        const until = now + Duration.toMillis(lasting)
        rows.set(idOf(secret), { role, bond: SessionSecret.bond(secret, token), until })
        return { secret: Redacted.make(secret), until }
      }),
    find: (secret, tokens, lasting) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const row = rows.get(idOf(secret))
        if (row === undefined || row.until <= now) return Option.none()
        if (!SessionSecret.holds(secret, row.role, row.bond, tokens)) return Option.none()
        const extended = SessionSecret.isWorthExtending(row.until, lasting, now)
        const until = extended ? now + Duration.toMillis(lasting) : row.until
        rows.set(idOf(secret), { ...row, until })
        return Option.some({ role: row.role, until })
      }),
    lasts: (secret, tokens) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const row = rows.get(idOf(secret))
        return row !== undefined && row.until > now && SessionSecret.holds(secret, row.role, row.bond, tokens)
      }),
    end: (secret) => Effect.sync(() => void rows.delete(idOf(secret))),
    purge: Effect.map(Clock.currentTimeMillis, (now) => {
      const over = [...rows].filter(([, { until }]) => until <= now)
      for (const [id] of over) rows.delete(id)
      return over.length
    })
  })
})

export const layer: Layer.Layer<Sessions> = Layer.effect(Sessions, make)
