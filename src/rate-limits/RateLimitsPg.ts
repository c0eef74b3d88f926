import { Clock, Duration, Effect, Layer } from "effect"
import { makeGenerator } from "../core/Ids.js"
import { Database } from "../database/Database.js"
import { type DatabaseError, mapErrors } from "../database/DatabaseError.js"
import { fragments, instant } from "../database/SqlInstant.js"
import { hot, named } from "../database/Statements.js"
import { forHandlers } from "../database/Transaction.js"
import * as Bucket from "./Bucket.js"
import { epsilon } from "./Bucket.js"
import { type DeclaredLimit, faultOf, faultOfDeclared, faultOfPause, isScope, UnknownScope } from "./Limit.js"
import { RateLimits } from "./RateLimits.js"
import * as TokenBlocks from "./TokenBlocks.js"

export interface LimitSql {
  /** Parameters: scope, now, least, most, holder, returned, block lifetime in milliseconds. */
  readonly take: string
}

export const statementsFor = (schema: string): LimitSql => ({
  take: hot(`
with bucket as materialized (
  select scope, tokens, blocks, coalesce(tuned_capacity, capacity) as capacity, coalesce(tuned_rate, rate) as rate,
    extract(epoch from refilled_at)::float8 * 1000 as refilled_ms
  from ${schema}.rate_limit where scope = $1
  -- Of two concurrent statements, the second waits here and then reads the row that the first committed.
  for update
), lent as (
  select bucket.*, others.*,
    case when (blocks -> $5 ->> 1)::float8 > $2::float8
      then least($6::float8, (blocks -> $5 ->> 0)::float8) else 0 end as returned
  from bucket cross join lateral (
    select coalesce(sum((value ->> 0)::float8), 0) as lent, coalesce(max((value ->> 1)::float8), 0) as lent_until,
      coalesce(jsonb_object_agg(key, value), '{}') as kept
    from jsonb_each(blocks) where key <> $5 and (value ->> 1)::float8 > $2::float8
  ) as others
), filled as (
  select *, greatest(0, least(capacity - lent,
    tokens + returned + greatest(0, $2::float8 - refilled_ms) / 1000 * rate)) as available
  from lent
), decided as (
  select *, case when available + ${epsilon} >= $3::float8 then floor(least($4::float8, available + ${epsilon})) else 0 end as granted
  from filled
), taken as (
  update ${schema}.rate_limit as r
  set tokens = greatest(0, available - granted),
    refilled_at = greatest(r.refilled_at, ${instant("$2")}),
    blocks = kept || case when $5 <> '' and granted > $3::float8
      then jsonb_build_object($5::text, jsonb_build_array(granted - $3::float8, $2::float8 + $7::float8))
      else '{}' end,
    updated_at = ${instant("$2")}
  from decided
  -- A refused request writes nothing, so it leaves no dead row.
  where r.scope = decided.scope and granted > 0
)
select granted, capacity, rate, case when granted > 0 then 0 else greatest(
    greatest(0, refilled_ms - $2::float8) + ($3::float8 - available) / rate * 1000,
    -- Tokens that other holders reserved return only when their block expires, however fast the bucket refills.
    case when $3::float8 > capacity - lent then lent_until - $2::float8 else 0 end
  ) end as wait_ms
from decided`)
})

interface BucketRow {
  readonly scope: string
  readonly capacity: number
  readonly rate: number
  readonly tuned_capacity: number | null
  readonly tuned_rate: number | null
  readonly tokens: number
  readonly refilled_ms: number
  readonly blocks: Readonly<Record<string, readonly [tokens: number, until: number]>>
}

interface TakenRow {
  readonly granted: number
  readonly capacity: number
  readonly rate: number
  readonly wait_ms: number
}

const toBucket = (row: BucketRow): Bucket.Bucket => ({
  scope: row.scope,
  declared: { capacity: row.capacity, rate: row.rate },
  tuned: { capacity: row.tuned_capacity ?? undefined, rate: row.tuned_rate ?? undefined },
  tokens: row.tokens,
  refilledAt: row.refilled_ms,
  blocks: Object.fromEntries(Object.entries(row.blocks).map(([pod, [tokens, until]]) => [pod, { tokens, until }]))
})

const make = Effect.gen(function* () {
  const { outside, poolSize, schema, sql, transaction } = yield* Database
  const statements = named("limit", statementsFor(schema))
  const table = sql(`${schema}.rate_limit`)
  const columns = sql`scope, capacity, rate, tuned_capacity, tuned_rate, tokens, blocks,
    extract(epoch from refilled_at)::float8 * 1000 as refilled_ms`
  const { instant } = fragments(sql)
  const ids = yield* makeGenerator
  const holder = ids.pod(yield* Clock.currentTimeMillis)

  // While another session has locked a bucket, its statements take at most half of the connections from those of other buckets.
  const turnOf = TokenBlocks.semaphores(Math.max(1, forHandlers(poolSize) >> 1))

  // Runs outside the caller's transaction: a row lock held until that ends would block every pod under the same limit,
  // and a rollback would return tokens that the upstream has counted.
  const take: TokenBlocks.Take<UnknownScope | DatabaseError> = (scope, taking, now) =>
    Effect.gen(function* () {
      const { holder = "", least, lifeMillis = 0, most, returned = 0 } = taking
      const parameters = [scope, now, least, most, holder, returned, lifeMillis]
      if (!isScope(scope)) return yield* new UnknownScope({ scope })
      const rows = yield* mapErrors(
        turnOf(scope).withPermits(1)(outside(sql.unsafe<TakenRow>(statements.take, parameters)))
      )
      const [row] = rows
      if (row === undefined) return yield* new UnknownScope({ scope })
      return { granted: row.granted, capacity: row.capacity, rate: row.rate, waitMillis: row.wait_ms }
    })
  const blocks = TokenBlocks.make(take, holder)

  const found = (scope: string) => (rows: ReadonlyArray<BucketRow>) =>
    rows[0] === undefined ? new UnknownScope({ scope }) : Effect.succeed(toBucket(rows[0]))
  /** Skips the query if the name is invalid. */
  const find = <E>(scope: string, rows: Effect.Effect<ReadonlyArray<BucketRow>, E>) =>
    isScope(scope) ? Effect.flatMap(rows, found(scope)) : new UnknownScope({ scope })
  const held = (scope: string) =>
    find(scope, sql<BucketRow>`select ${columns} from ${table} where scope = ${scope} for update`)

  /** The caller holds the row lock from `held`, so no token is taken between read and write. */
  const write = (bucket: Bucket.Bucket, now: number) => sql`
    update ${table} set capacity = ${bucket.declared.capacity}, rate = ${bucket.declared.rate},
      tuned_capacity = ${bucket.tuned.capacity ?? null}, tuned_rate = ${bucket.tuned.rate ?? null},
      tokens = ${bucket.tokens}, refilled_at = ${instant(bucket.refilledAt)}, updated_at = ${instant(now)}
    where scope = ${bucket.scope}`

  const registerOne = ({ capacity, rate, scope }: DeclaredLimit, now: number) =>
    Effect.gen(function* () {
      yield* sql`
        insert into ${table} (scope, capacity, rate, tokens, refilled_at, registered_at, updated_at)
        values (${scope}, ${capacity}, ${rate}, ${capacity}, ${instant(now)}, ${instant(now)}, ${instant(now)})
        on conflict (scope) do nothing`
      const existing = yield* held(scope)
      const next = Bucket.redeclare(existing, { capacity, rate }, now)
      if (next !== existing) yield* write(next, now)
    })

  return RateLimits.of({
    acquire: blocks.acquire,
    register: (limits) =>
      Effect.gen(function* () {
        const fault = faultOfDeclared(limits)
        if (fault !== undefined) return yield* fault
        const now = yield* Clock.currentTimeMillis
        const byScope = limits.toSorted((a, b) => (a.scope < b.scope ? -1 : 1))
        if (byScope.length === 0) return
        // The row was just inserted and limits are never deleted, so it must exist.
        yield* Effect.forEach(byScope, (limit) => registerOne(limit, now), { discard: true }).pipe(
          transaction,
          Effect.catchTag("UnknownScope", Effect.die)
        )
      }),
    drain: (scope, duration = Duration.zero) =>
      Effect.gen(function* () {
        const fault = faultOfPause(scope, duration)
        if (fault !== undefined) return yield* fault
        yield* blocks.forget(scope)
        const now = yield* Clock.currentTimeMillis
        const bucket = yield* find(
          scope,
          outside(sql<BucketRow>`
            update ${table} set tokens = 0, updated_at = ${instant(now)},
              refilled_at = greatest(refilled_at, ${instant(now + Duration.toMillis(duration))})
            where scope = ${scope} returning ${columns}`)
        )
        return Bucket.stateOf(bucket, now)
      }).pipe(mapErrors),
    tune: (scope, patch) =>
      transaction(
        Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          const bucket = yield* held(scope)
          const next = Bucket.tune(bucket, patch, now)
          const after = Bucket.stateOf(next, now)
          const fault = faultOf(after)
          if (fault !== undefined) return yield* fault
          yield* write(next, now)
          return { before: Bucket.stateOf(bucket, now), after }
        })
      ),
    get: (scope) =>
      Effect.gen(function* () {
        const bucket = yield* find(scope, sql<BucketRow>`select ${columns} from ${table} where scope = ${scope}`)
        return Bucket.stateOf(bucket, yield* Clock.currentTimeMillis)
      }).pipe(mapErrors),
    all: Effect.gen(function* () {
      const rows = yield* mapErrors(sql<BucketRow>`select ${columns} from ${table} order by scope collate "C"`)
      const now = yield* Clock.currentTimeMillis
      return rows.map((row) => Bucket.stateOf(toBucket(row), now))
    })
  })
})

export const layer: Layer.Layer<RateLimits, never, Database> = Layer.effect(RateLimits, make)
