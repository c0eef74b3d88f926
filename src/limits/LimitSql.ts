import { hot } from "../database/HotStatements.js"
import { instant } from "../database/SqlInstant.js"
import { epsilon } from "./Bucket.js"

export interface LimitSql {
  /** Parameters: scope, now, least, most, holder, returned, block lifetime in milliseconds. */
  readonly take: string
}

export const make = (schema: string): LimitSql => ({
  take: hot(`
with bucket as materialized (
  select scope, tokens, blocks, coalesce(tuned_capacity, capacity) as capacity, coalesce(tuned_rate, rate) as rate,
    extract(epoch from refilled_at)::float8 * 1000 as refilled_ms
  from ${schema}.rate_limit where scope = $1
  -- A concurrent statement waits here and then reads the row as the first one left it, not its own snapshot.
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
    -- Tokens reserved by others return only when their block expires, however fast the bucket refills.
    case when $3::float8 > capacity - lent then lent_until - $2::float8 else 0 end
  ) end as wait_ms
from decided`)
})
