import { Clock, Effect, Layer } from "effect"
import { makeGenerator, type TokenId, type Workspace } from "../core/Ids.js"
import { Database } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import { fragments, millis } from "../database/SqlInstant.js"
import * as Secrets from "./Secrets.js"
import { mostLabelCharacters, type Token, TokenNotFound, Tokens } from "./Tokens.js"

interface TokenRow {
  readonly id: TokenId
  readonly workspace_id: Workspace
  readonly prefix: string
  readonly label: string
  readonly created_at: number
}

const toToken = (row: TokenRow): Token => ({
  id: row.id,
  workspace: row.workspace_id,
  prefix: row.prefix,
  label: row.label,
  createdAt: row.created_at
})

const make = Effect.gen(function* () {
  const { schema, sql } = yield* Database
  const ids = yield* makeGenerator
  const table = sql(`${schema}.workspace_token`)
  const columns = sql.literal(`id, workspace_id, prefix, label, ${millis("created_at")} as created_at`)

  return Tokens.of({
    create: Effect.fn("Tokens.create")(function* (workspace, label = "") {
      const now = yield* Clock.currentTimeMillis
      const { hash, prefix, secret } = Secrets.makeToken()
      const [row] = yield* mapErrors(sql<TokenRow>`
        insert into ${table} (id, workspace_id, prefix, hash, label, created_at)
        values (${ids.token(now)}, ${workspace}, ${prefix}, ${hash}, ${label.slice(0, mostLabelCharacters)},
          ${fragments(sql).instant(now)})
        returning ${columns}`)
      if (row === undefined) return yield* Effect.dieMessage("the insert returned no row")
      return { ...toToken(row), secret }
    }),
    list: Effect.fn("Tokens.list")(function* (workspace) {
      const rows = yield* mapErrors(
        sql<TokenRow>`select ${columns} from ${table} where workspace_id = ${workspace} order by id`
      )
      return rows.map(toToken)
    }),
    revoke: Effect.fn("Tokens.revoke")(function* (workspace, id) {
      const [row] = yield* mapErrors(
        sql<TokenRow>`delete from ${table} where workspace_id = ${workspace} and id = ${id} returning ${columns}`
      )
      return row === undefined ? yield* new TokenNotFound({ id }) : toToken(row)
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
