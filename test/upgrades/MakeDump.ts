import { writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import * as Deployment from "../faults/Deployment.js"
import { token } from "../faults/Pod.js"
import * as Dump from "./Dump.js"

// Fills a database with a real process, kills it, and writes the rows to the file of the dump: `npm run dump`. Only for the
// release whose schema the dump has: a dump that is kept is never made again.

const app = fileURLToPath(new URL("fixtures/shop-app.mjs", import.meta.url))

/** Rows that take days, a bot or a slow client to come about. */
const rare = `
  set search_path = nightshift;
  update pod set host = 'shop-1';
  update job set cancel_requested_at = updated_at where kind = 'shop.task' and status = 'running' and payload->>'name' = 'to cancel';
  select enqueue('shop.task', '{"name": "pending", "does": "end"}');
  insert into job select r.* from unnest(array['unknown_kind', 'poison', 'not_undone']) reason,
    lateral (select * from job where dead_reason = 'rejected' and kind = 'shop.task' limit 1) j,
    jsonb_populate_record(null::job, to_jsonb(j) || jsonb_build_object('id', gen_random_uuid(), 'dead_reason', reason)) r;
  insert into follow_up_due (job_id, death, version, died_at, due_at, kind, dead_reason, error, payload)
  select id, death_count + 1, version, finished_at, finished_at + interval '1 h', kind, dead_reason, last_error, payload
  from job where dead_reason = 'poison';
  insert into batch (id, created_at, total, name, closed_at, counts)
  values (gen_random_uuid(), now() - interval '1 d', 2, 'last month', now() - interval '23 h', '{"done": 2, "dead": 0, "cancelled": 0, "deleted": 0}');
  insert into workflow_lifetime (job_id, release, parked) select id, 'r1', woken from job where dedupe_key = 'shop.order/failed';
  insert into bot_session values (7, now(), now() + interval '1 d');
  insert into bot_guess (user_id, failures, since) values (8, 2, now());
  insert into bot_dead_letter (job_id, chat_id, intended_at, settled_at, bot, state)
  select id, 7, finished_at, finished_at, 'helper', 'sent' from job where dead_reason = 'rejected' limit 1;
  insert into queue_wait (queue, since, until, reason) values ('shop', now() - interval '2 h', now() - interval '1 h', 'paused');
  insert into pod_sample (minute, pod_id, cpu, rss_bytes, event_loop_p99, event_loop_max, pool_busy, pool_idle, pool_waiting,
    statement_sum, statement_max, statement)
  select date_trunc('minute', now()), id, 0.1, 90000000, 0.01, 0.02, 1, 3, 0, 12, 3, '\\x' from pod on conflict do nothing;
  insert into database_sample values (date_trunc('minute', now()), 20000000, 1000000, 40, 3, 0.5, 9) on conflict do nothing;
  insert into upload_content values (gen_random_uuid(), now() + interval '2 h');
  insert into upload_chunk select file_id, 0, '\\x0102' from upload_content where draft_until is not null;`

it.scopedLive("makes the dump", () =>
  Effect.gen(function* () {
    const deployment = yield* Deployment.make({ app, env: { SHOP_STAGE: "dump" } })
    const pod = yield* deployment.startPod()
    const ask = (method: string, path: string, body?: unknown) =>
      Effect.map(pod.request(method, `/api/v1${path}`, body), (answer) => {
        if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.body}`)
        return answer.body === "" ? {} : JSON.parse(answer.body)
      })
    const task = (name: string, does: string, more: object = {}) => ({
      kind: "shop.task",
      payload: { name, does },
      ...more
    })
    const inAnHour = { delay: `${Dump.dueAfterSeconds}s` }

    yield* ask("POST", "/jobs", {
      force: true,
      jobs: [
        task("ended", "end"),
        task("retries", "fail once"),
        task("rejected", "reject"),
        task("exhausted", "fail", { attempts: 1 }),
        task("hangs", "hang", { meta: { trace: "a" } }),
        task("to cancel", "hang"),
        task("scheduled", "end", inAnHour),
        task("urgent", "end", { ...inAnHour, priority: -5 }),
        task("cancelled", "end", inAnHour),
        task("deleted", "end", inAnHour),
        task("requeued", "reject"),
        task("unique", "end", { ...inAnHour, dedupe: { key: "shop:unique" } }),
        task("remembered", "end", { dedupe: { key: "shop:remembered", window: "30d" } }),
        ...["first", "second", "third"].map((name) => ({
          kind: "shop.turn",
          key: "a",
          payload: { name, does: "hang" }
        })),
        { kind: "shop.turn", key: "b", payload: { name: "fails", does: "fail once" } },
        { kind: "shop.turn", key: "b", payload: { name: "waits", does: "end" } },
        { kind: "shop.later", queue: "shop", payload: { name: "later", does: "end" } },
        { kind: "shop.routed.task", payload: { name: "routed", does: "end" } }
      ]
    })
    yield* deployment.query(`select nightshift.enqueue('shop.task', '{"wrong": 1}')`)
    yield* ask("POST", "/batches", {
      name: "open",
      jobs: [task("of the batch", "end"), task("of the batch, later", "end", inAnHour)],
      followUp: { kind: "shop.report", payload: { title: "open" } }
    })
    yield* ask("POST", "/batches", {
      name: "closed",
      jobs: [task("of the closed batch", "end")],
      followUp: { kind: "shop.report", payload: { title: "closed" } }
    })

    const start = (workflow: string, key: string, payload: object) =>
      ask("POST", "/workflows", { workflow, key, payload })
    for (const [id, plan] of [
      ["A", "whole"],
      ["B", "whole"],
      ["failed", "fail"],
      ["hangs", "hang"],
      ["queues", "hang"],
      ["gone", "whole"]
    ] as const) {
      yield* start("shop.order", id, { id, plan })
    }
    yield* start("shop.shipping", "S", { id: "S" })
    yield* start("shop.nap", "sleeper", { id: "sleeper", round: 1 })
    yield* start("shop.nap", "listener", { id: "listener", round: 1 })
    const signal = (execution: string, name: string, value: unknown) =>
      ask("POST", `/workflows/${encodeURIComponent(execution)}/signal`, { name, value })
    yield* signal("shop.nap/sleeper", "call", 1)
    yield* signal("shop.nap/listener", "call", 1)
    yield* signal("shop.order/early", "approval", { by: "ada" })
    const of = (state: string, count: number, where: string) =>
      Deployment.until(
        `${count} jobs ${state} ${where}`,
        deployment.query<{ n: number }>(`select count(*)::int as n from nightshift.job where ${where}`),
        ([row]) => row !== undefined && row.n >= count
      )
    const waits = (execution: string, kind: string) =>
      Deployment.until(
        `${execution} waits`,
        deployment.query("select from nightshift.workflow_deferred where execution = $1 and kind = $2 and waiting", [
          execution,
          kind
        ]),
        (rows) => rows.length > 0
      )
    for (const id of ["A", "B", "gone"]) yield* waits(`shop.order/${id}`, "signal")
    yield* ask("POST", `/workflows/${encodeURIComponent("shop.order/A")}/ask`, {
      name: "addItem",
      value: { sku: "book" }
    })
    yield* ask("POST", `/workflows/${encodeURIComponent("shop.order/gone")}/cancel`, {})
    yield* signal("shop.order/B", "approval", { by: "ada" })
    yield* waits("shop.order/B", "children")
    yield* waits("shop.shipping/S", "children")
    yield* waits("shop.nap/sleeper", "sleep")

    const [{ id: cancelled } = { id: "" }] = yield* deployment.query<{ id: string }>(
      "select id from nightshift.job where payload->>'name' = 'cancelled'"
    )
    yield* ask("POST", `/jobs/${cancelled}/cancel`)
    yield* of("done", 5, "status = 'done'")
    yield* of("dead", 4, "dead_reason <> 'cancelled'")
    yield* of("retrying", 2, "status = 'pending' and last_error is not null and run_at > created_at")
    yield* of("running", 4, "status = 'running'")
    yield* of("unknown", 1, "unknown_since is not null")
    const [{ id: requeued } = { id: "" }] = yield* deployment.query<{ id: string }>(
      "select id from nightshift.job where payload->>'name' = 'requeued'"
    )
    yield* ask("POST", `/jobs/${requeued}/requeue`)
    yield* ask("POST", "/jobs/bulk", { action: "delete", filter: { payload: { name: "deleted" } } })

    yield* ask("POST", "/views", { name: "dead tasks", page: "dead", filter: { queue: "shop" } })
    yield* ask("POST", "/session", { token })
    const { token: secret } = yield* ask("POST", "/workspaces/acme/tokens", { label: "desk" })
    const upload = (name: string) =>
      Effect.promise(async () => {
        const form = new FormData()
        form.append("files", new File([`the content of ${name}`], name))
        const headers = { authorization: `Bearer ${secret}` }
        const answer = await fetch(`${pod.base}/uploads/acme`, { method: "POST", headers, body: form })
        const { files } = (await answer.json()) as { files: Array<{ id: string }> }
        return { id: files[0]?.id, headers }
      })
    yield* upload("waiting.txt")
    const { headers, id } = yield* upload("acknowledged.txt")
    yield* Effect.promise(() => fetch(`${pod.base}/uploads/acme/${id}/ack`, { method: "POST", headers }))
    yield* Effect.promise(() =>
      fetch(`${pod.base}/api/v1/jobs`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json", "idempotency-key": "one" },
        body: JSON.stringify(task("idempotent", "end"))
      })
    )
    yield* of("deleted", 0, "payload->>'name' = 'deleted'")
    yield* Deployment.until(
      "counts, and the end of the operation and of the closed batch",
      deployment.query<{ n: number }>(
        `select count(*)::int as n from nightshift.job_bucket where (select count(*) from nightshift.operation where status = 'done') > 0
         and (select count(*) from nightshift.job where kind = 'shop.report' and status = 'done') > 0
         and (select count(*) from nightshift.job where payload->>'name' = 'requeued' and status = 'dead' and death_count = 2) > 0`
      ),
      ([row]) => (row?.n ?? 0) > 0
    )
    yield* pod.signal("SIGKILL")
    yield* pod.finished
    yield* deployment.query(rare)
    const contents = yield* Dump.read(Redacted.make(deployment.databaseUrl))
    expect(Object.entries(contents).flatMap(([table, rows]) => (rows.length === 0 ? [table] : []))).toEqual([])
    writeFileSync(Dump.file, Dump.render(contents, new Date()))
  })
)
