import { Clock, Duration, Effect, Layer, Option, Redacted } from "effect"
import { Database } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import { fragments } from "../database/SqlInstant.js"
import * as Secrets from "./Secrets.js"
import { type Role, type RoleTokens, Sessions } from "./Sessions.js"

interface SessionRow {
  readonly role: Role
  readonly bond: Buffer
  readonly until: number
}

const make = Effect.gen(function* () {
  const { schema, sql } = yield* Database
  const table = sql(`${schema}.session`)
  const { instant, millis } = fragments(sql)

  const rowOf = (secret: string, tokens: RoleTokens, now: number) =>
    Effect.map(
      mapErrors(sql<SessionRow>`
        select role, bond, ${millis("expires_at")} as until
        from ${table} where secret_hash = ${Secrets.hash(secret)} and expires_at > ${instant(now)}`),
      ([row]) => (row !== undefined && Secrets.holds(secret, row.role, row.bond, tokens) ? row : undefined)
    )

  return Sessions.of({
    begin: (role, token, lasting) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const secret = Secrets.makeSession()
        const until = now + Duration.toMillis(lasting)
        yield* mapErrors(sql`insert into ${table} (secret_hash, role, bond, created_at, expires_at)
          values (${Secrets.hash(secret)}, ${role}, ${Secrets.bond(secret, token)}, ${instant(now)},
            ${instant(until)})`)
        return { secret: Redacted.make(secret), until }
      }),

    find: (secret, tokens, lasting) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const row = yield* rowOf(secret, tokens, now)
        if (row === undefined) return Option.none()
        if (!Secrets.isWorthExtending(row.until, lasting, now)) return Option.some(row)
        const until = now + Duration.toMillis(lasting)
        yield* mapErrors(
          sql`update ${table} set expires_at = ${instant(until)} where secret_hash = ${Secrets.hash(secret)}`
        )
        return Option.some({ role: row.role, until })
      }),

    lasts: (secret, tokens) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        Effect.map(rowOf(secret, tokens, now), (row) => row !== undefined)
      ),

    end: (secret) => mapErrors(Effect.asVoid(sql`delete from ${table} where secret_hash = ${Secrets.hash(secret)}`)),

    purge: Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const gone = yield* mapErrors(
        sql<{ role: Role }>`delete from ${table} where expires_at <= ${instant(now)} returning role`
      )
      return gone.length
    })
  })
})

export const layer: Layer.Layer<Sessions, never, Database> = Layer.effect(Sessions, make)
