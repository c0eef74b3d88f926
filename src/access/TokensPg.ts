import { Clock, Effect, Layer } from "effect"
import { makeGenerator } from "../core/Ids.js"
import { Database } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import { fragments, millis } from "../database/SqlInstant.js"
import * as Secrets from "./Secrets.js"
import { maxLabelCharacters, type Token, TokenNotFound, Tokens } from "./Tokens.js"

const make = Effect.gen(function* () {
  const { schema, sql } = yield* Database
  const ids = yield* makeGenerator
  const table = sql(`${schema}.workspace_token`)
  const columns = sql.literal(`id, workspace_id as workspace, prefix, label, ${millis("created_at")} as "createdAt"`)

  return Tokens.of({
    create: Effect.fn("Tokens.create")(function* (workspace, label = "") {
      const now = yield* Clock.currentTimeMillis
      const { hash, prefix, secret } = Secrets.makeToken()
      const [token] = yield* mapErrors(sql<Token>`
        insert into ${table} (id, workspace_id, prefix, hash, label, created_at)
        values (${ids.token(now)}, ${workspace}, ${prefix}, ${hash}, ${label.slice(0, maxLabelCharacters)},
          ${fragments(sql).instant(now)})
        returning ${columns}`)
      if (token === undefined) return yield* Effect.dieMessage("the insert returned no row")
      return { ...token, secret }
    }),
    list: Effect.fn("Tokens.list")(function* (workspace) {
      return yield* mapErrors(sql<Token>`select ${columns} from ${table} where workspace_id = ${workspace} order by id`)
    }),
    revoke: Effect.fn("Tokens.revoke")(function* (workspace, id) {
      const [token] = yield* mapErrors(
        sql<Token>`delete from ${table} where workspace_id = ${workspace} and id = ${id} returning ${columns}`
      )
      return token ?? (yield* new TokenNotFound({ id }))
    }),
    verify: Effect.fn("Tokens.verify")(function* (workspace, given) {
      const rows = yield* mapErrors(sql<{ readonly hash: Buffer }>`
        select hash from ${table} where workspace_id = ${workspace} and prefix = ${Secrets.prefixOf(given)}`)
      return Secrets.isOneOf(
        given,
        rows.map(({ hash }) => hash)
      )
    })
  })
})

export const layer: Layer.Layer<Tokens, never, Database> = Layer.effect(Tokens, make)
