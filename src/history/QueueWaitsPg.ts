import { Clock, Effect, Layer } from "effect"
import { Database } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import { instant, millis } from "../database/SqlInstant.js"
import { named } from "../database/Statements.js"
import * as HistorySql from "./HistorySql.js"
import { maxWaits, type QueueWait, QueueWaits, type WaitReason } from "./QueueWaits.js"

interface WaitRow {
  readonly queue: string
  readonly reason: WaitReason
  readonly since: number
  readonly until: number | null
}

const columns = `queue, reason, ${millis("since")} as since, ${millis("until")} as until`

const statementsOf = (schema: string) => ({
  open: `select ${columns} from ${schema}.queue_wait where until is null order by queue, since`,

  change: `
  with given as (
    select * from unnest($1::text[], $2::text[]) as given(queue, reason)
  ), ended as (
    update ${schema}.queue_wait w set until = greatest(w.since, ${instant("$3")})
    from given where w.queue = given.queue and w.until is null
  )
  insert into ${schema}.queue_wait (queue, since, reason)
  select queue, ${instant("$3")}, reason from given where reason is not null
  on conflict (queue, since) do nothing`,

  during: `
  select ${columns} from ${schema}.queue_wait
  where queue = $1 and since < ${instant("$3")} and (until is null or until > ${instant("$2")})
  order by since desc limit ${maxWaits}`
})

const toWait = ({ queue, reason, since, until }: WaitRow): QueueWait => ({
  queue,
  reason,
  since,
  until: until ?? undefined
})

const make = Effect.gen(function* () {
  const database = yield* Database
  const { schema, sql } = database
  const statements = named("wait", statementsOf(schema))
  const rows = { table: "queue_wait", key: "queue, since", old: (before: string) => `until < ${before}` }
  return QueueWaits.of({
    open: Effect.map(mapErrors(sql.unsafe<WaitRow>(statements.open)), (found) => found.map(toWait)),
    change: (changes) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const queues = changes.map(({ queue }) => queue)
        const reasons = changes.map(({ reason }) => reason ?? null)
        yield* mapErrors(sql.unsafe(statements.change, [queues, reasons, now]))
      }),
    during: (queue, { from, to }) =>
      Effect.map(mapErrors(sql.unsafe<WaitRow>(statements.during, [queue, from, to])), (found) =>
        found.map(toWait).reverse()
      ),
    purge: (olderThan) => HistorySql.purgeRows(database, rows, olderThan)
  })
})

export const layer: Layer.Layer<QueueWaits, never, Database> = Layer.effect(QueueWaits, make)
