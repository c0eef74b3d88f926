import { instant } from "../../database/SqlInstant.js"
import { hot, opaque } from "../../database/Statements.js"
import { millis } from "./ClaimedRow.js"

// Statements that tell the claim cursor where jobs are. They lock nothing: the claim checks every job itself.

export const make = (schema: string) => ({
  /** The first due jobs in queue order, for claims by key. */
  front: hot(`
  select stretch.id, stretch.key, stretch.priority, ${millis("stretch.run_at")} as run_at
  from unnest($4::smallint[], $5::float8[], $6::uuid[]) as start(priority, run_at, id)
  cross join lateral (
    select id, key, priority, run_at from ${schema}.job
    where queue = $1 and finished_at is null and lease is null and priority = start.priority
      and (run_at, id) >= (${instant("start.run_at")}, start.id) and run_at <= ${instant("$2")}
    order by run_at, id
    limit $3::int
  ) stretch
  limit $3::int`),

  /** The keys after one, in order. Each step skips all jobs of a key. */
  keysAfter: hot(`
  with recursive step(key, number) as (
    (select key, 1 from ${schema}.job where queue = $1 and finished_at is null and key > $2 order by key limit 1)
    union all
    select (select j.key from ${schema}.job j
      where j.queue = $1 and j.finished_at is null and j.key > step.key order by j.key limit 1), number + 1
    from step where step.key is not null and number < $3::int
  )
  select key from step where key is not null`),

  /** For each of several queues, the priorities that have waiting jobs. Each step skips all jobs of one priority. */
  priorities: hot(`
  select line.place::int, found.priority
  from unnest(${opaque("$1::text[]")}) with ordinality as line(queue, place)
  cross join lateral (
    with recursive step(priority) as (
      (select priority from ${schema}.job
      where queue = line.queue and finished_at is null and lease is null order by priority limit 1)
      union all
      select (select j.priority from ${schema}.job j where j.queue = line.queue and j.finished_at is null and j.lease is null
        and j.priority > step.priority order by j.priority limit 1)
      from step where step.priority is not null
    )
    select priority from step where priority is not null
  ) found`),

  /** The first priority with waiting jobs in each gap of each queue. */
  prioritiesBetween: hot(`
  select gap.place, found.priority
  from unnest(${opaque("$2::int[]")}, ${opaque("$3::int[]")}, ${opaque("$4::int[]")}) as gap(place, above, below)
  cross join lateral (
    select priority from ${schema}.job
    where queue = ($1::text[])[gap.place] and finished_at is null and lease is null
      and priority > gap.above and priority < gap.below
    order by priority limit 1
  ) found`)
})

export type ScanSql = ReturnType<typeof make>
