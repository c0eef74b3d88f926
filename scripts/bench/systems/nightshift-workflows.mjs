// Nightshift's workflows through nightshift/client.
import { setTimeout as sleep } from "node:timers/promises"
import pg from "pg"
import { z } from "zod"

const face = new URL("../../../dist/client.js", import.meta.url)

const stepNames = (steps) => Array.from({ length: steps }, (_, index) => `step ${index + 1}`)

// One step is recorded; the execution sleeps until next month.
const sleepers = {
  jobs: `insert into nightshift.job (id, kind, version, queue, payload, status, priority, run_at, attempt, max_attempts,
      created_at, updated_at, dedupe_key, dedupe_scope, woken)
    select gen_random_uuid(), 'asleep', 1, 'default', jsonb_build_object('n', n), 'pending', 0, now() + interval '30 days', 0, 5,
      now(), now(), 'asleep/' || n, 'retained', 1
    from generate_series($1::int, $2::int) as n`,
  steps: `insert into nightshift.workflow_step (job_id, name, attempt, sequence, kind, outcome, exit, started_at, ended_at)
    select id, 'step 1', 1, 1, 'run', 'done', '{}', now(), now() from nightshift.job where kind = 'asleep'`,
  waits: `insert into nightshift.workflow_deferred (execution, kind, name, created_at, due_at, waiting)
    select dedupe_key, 'sleep', 'a month', now(), run_at, true from nightshift.job where kind = 'asleep'`
}

/** Executions of workflows with no-op steps, and of one that waits for a signal. */
export const openWorkflows = async (url) => {
  const { connect, worker, workflow } = await import(face)
  const shift = await connect(url, { log: false })
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  let onStep = () => {}
  const options = { payload: z.object({ n: z.number() }), key: ({ n }) => String(n), queue: "default" }
  const bySteps = new Map()
  const ofSteps = (steps) => {
    const known = bySteps.get(steps)
    if (known !== undefined) return known
    const names = stepNames(steps)
    const made = workflow(`steps-${steps}`, options, async ({ n }, step) => {
      for (const name of names) await step.run(name, () => onStep(n, name))
    })
    bySteps.set(steps, made)
    return made
  }
  const waiting = workflow("waiting", options, async ({ n }, step) => {
    await step.waitFor("go")
    await step.run("next", () => onStep(n, "next"))
    return n
  })
  const streaming = workflow(
    "streaming",
    { ...options, payload: z.object({ n: z.number(), chunks: z.number() }) },
    async ({ chunks }, step) => {
      await step.stream("tokens", async function* () {
        for (let token = 0; token < chunks; token += 1) yield `token ${token}`
      })
    }
  )
  const flows = [3, 30].map(ofSteps)
  const handles = new Map()

  return {
    run: (n, steps) => shift.start(ofSteps(steps), { n }),
    startWaiting: async (n) => {
      handles.set(n, await shift.start(waiting, { n }))
    },
    signal: (n) => handles.get(n).signal("go"),
    result: (n) => handles.get(n).result(),
    stream: async function* (n, chunks) {
      const run = await shift.start(streaming, { n, chunks })
      for await (const { value } of run.stream("tokens")) yield value
    },
    suspended: async (count) => {
      const query = `select count(*)::int as n from nightshift.workflow_deferred where kind = 'signal' and waiting`
      while ((await pool.query(query)).rows[0].n < count) await sleep(20)
    },
    work: async (given) => {
      onStep = given.onStep
      await worker(shift, { handlers: [...flows, waiting, streaming], queues: { default: 64 } })
    },
    unfinished: async () => {
      const query = "select exists (select from nightshift.job where finished_at is null and run_at <= $1) as some"
      return (await pool.query(query, [new Date()])).rows[0].some
    },
    recorded: async () => {
      const query = `select (select count(*)::int from nightshift.job where status = 'done' and woken > 0) as executions,
        (select count(*)::int from nightshift.workflow_step where outcome = 'done') as steps`
      return (await pool.query(query)).rows[0]
    },
    sleepers: async (count) => {
      const size = async () =>
        (await pool.query("select pg_database_size(current_database())::float8 as bytes")).rows[0].bytes
      const before = await size()
      const batch = 100_000
      for (let first = 1; first <= count; first += batch)
        await pool.query(sleepers.jobs, [first, Math.min(count, first + batch - 1)])
      await pool.query(sleepers.steps)
      await pool.query(sleepers.waits)
      return (await size()) - before
    }
  }
}
