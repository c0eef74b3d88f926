import { readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import * as Package from "../../src/database/Package.js"
import * as Deployment from "../faults/Deployment.js"
import { until } from "../faults/Pod.js"
import { first, prove, stopsWell } from "../faults/Steps.js"
import { survive } from "../faults/Survival.js"
import * as TestDatabase from "../support/TestDatabase.js"
import * as Dump from "../upgrades/Dump.js"
import * as Release from "../upgrades/Release.js"

// The old release is this build. The new one is a copy of it with the next version and one more migration.

const app = join(Dump.fixtures, "shop-app.mjs")
const sample = readFileSync(join(Dump.fixtures, "sample.sql"), "utf8")
const name = `${Release.nextNumber}_sample`
const [major, minor] = Package.version.parts
const next = `${major}.${minor + 1}.0`

/** What the dump waits for is due soon after the restore. */
const restored = Effect.tap(TestDatabase.empty, (url) => Dump.restore(url, Dump.dueAfterSeconds - 20))

const ask = (pod: Deployment.Pod, path: string, body: unknown) =>
  Effect.flatMap(pod.request("POST", `/api/v1${path}`, body), ({ body: text, status }) =>
    status < 300 ? Effect.void : Effect.fail(new Error(`${path}: ${status} ${text}`))
  )

const signal = (pod: Deployment.Pod, execution: string, signalName: string, value: unknown) =>
  ask(pod, `/workflows/${encodeURIComponent(execution)}/signal`, { name: signalName, value })

/** Sends a label to every parcel that waits for one, again and again: parcels start until the orders have ended. */
const labelParcels = (deployment: Deployment.Deployment, pod: Deployment.Pod) =>
  deployment
    .query<{ execution: string }>(
      "select execution from nightshift.workflow_deferred where kind = 'signal' and name = 'label' and waiting and completed_at is null"
    )
    .pipe(
      Effect.flatMap((waiting) =>
        Effect.forEach(waiting, ({ execution }) => signal(pod, execution, "label", "a label"))
      ),
      Effect.ignore,
      Effect.repeat(Schedule.spaced("200 millis"))
    )

interface ShopStep {
  readonly execution: string
  readonly step: string
}

const stepsIn = (deployment: Deployment.Deployment): ReadonlyArray<ShopStep> =>
  readFileSync(deployment.ledger, "utf8")
    .split("\n")
    .filter((line) => line.includes('"shop step"'))
    .map((line) => JSON.parse(line))

/** Columns that a job keeps until its end. */
const kept = ["id", "kind", "queue", "payload", "key", "dedupe_key", "batch_id", "created_at", "max_attempts"]

type Row = Readonly<Record<string, string | null>>

/** Jobs of the dump that are lost or differ: ended ones in any column, the others in what they keep or how they end. */
const wrongJobs = (before: ReadonlyArray<Row>, after: ReadonlyArray<Row>) => {
  const now = new Map(after.map((row) => [row.id, row]))
  return before.flatMap((row) => {
    const found = now.get(row.id ?? "")
    const columns = row.finished_at === null ? kept : Object.keys(row)
    const changed = columns.filter((column) => found?.[column] !== row[column])
    const end = row.cancel_requested_at === null ? "done" : "dead"
    const isOpen = row.finished_at === null && found?.status !== end
    return changed.length === 0 && !isOpen
      ? []
      : [{ kind: row.kind, payload: row.payload, changed, status: found?.status, error: found?.last_error }]
  })
}

/** What the logs warn of, except for a machine that is too slow for the short heartbeats of these processes. */
const problemsIn = (pods: ReadonlyArray<Deployment.Pod>) =>
  pods
    .flatMap((pod) => pod.printed().split("\n"))
    .filter((line) => /"level":"(warn|error|fatal)/i.test(line))
    .filter((line) => !/"the heartbeat was [\d.]+s late|"heartbeat beat failed".*took longer than/.test(line))

/** Enqueues jobs until the process runs one: the others may take all of the first ones. */
const works = (deployment: Deployment.Deployment, { pid }: Deployment.Pod) => {
  const runs = () => deployment.events().filter((event) => event.pid === pid).length
  const before = runs()
  const jobs = Array.from({ length: 10 }, () => ({ kind: "work", payload: { ms: 50 } }))
  return until(`process ${pid} runs a job`, Effect.map(deployment.enqueue(jobs), runs), (count) => count > before)
}

describe("an upgrade of the dump of 0.1.0", () => {
  it.scopedLive(
    "under load: old and new processes share the jobs, each job of the dump ends, executions follow their journals",
    () =>
      Effect.gen(function* () {
        const program = yield* Release.make(next, { [`${name}.sql`]: sample })
        const database = yield* restored
        const before = yield* Dump.read(database)
        let used: Deployment.Deployment | undefined
        yield* survive({
          database: Effect.succeed(database),
          app,
          countsMayDiffer: true,
          fault: (deployment) =>
            Effect.gen(function* () {
              used = deployment
              const old = [...deployment.pods]
              const { code, stderr, stdout } = yield* deployment.commandOf(program, "migrate")
              yield* prove(`the new release migrates: ${stderr}`, code === 0 && stdout === `Applied ${name}.\n`)

              // Both old processes, and one that starts now, work on the new schema.
              const late = yield* deployment.startPod()
              for (const pod of [...old, late]) {
                yield* pod.untilReadyz(200)
                yield* works(deployment, pod)
              }
              const fresh = yield* deployment.startPod({ program })
              yield* Effect.forkScoped(labelParcels(deployment, fresh))
              yield* works(deployment, fresh)
              // Messages of old and new processes reach executions that either runs.
              yield* signal(late, "shop.order/A", "approval", { by: "bob" })
              for (const id of ["hangs", "queues"]) yield* signal(fresh, `shop.order/${id}`, "approval", { by: "bob" })
              for (const id of ["sleeper", "listener"]) yield* signal(fresh, `shop.nap/${id}`, "call", 2)
              yield* ask(fresh, "/workflows", {
                workflow: "shop.order",
                key: "early",
                payload: { id: "early", plan: "whole" }
              })
              for (const pod of [...old, late]) yield* stopsWell(pod)
              return []
            }),
          afterwards: (deployment) =>
            Effect.gen(function* () {
              const after = yield* Dump.read(database)
              expect(wrongJobs(before.job ?? [], after.job ?? [])).toEqual([])
              expect((after.job ?? []).every(({ tenant }) => tenant === "none")).toBe(true)

              // Recorded steps did not run again; the one that the kill had cut off did.
              const ran = stepsIn(deployment).map(({ execution, step }) => `${execution}: ${step}`)
              const receipts = ["A", "B", "early", "hangs", "queues"].map((id) => `${id}: receipt`)
              const parcels = ["A", "early", "hangs", "queues"].flatMap((id) =>
                ["book", "lamp"].map((item) => `parcel of ${id} ${item}: pack`)
              )
              expect(ran.sort()).toEqual(
                [...receipts, ...parcels, "early: charge", "early: packing", "hangs: weigh", "queues: weigh"].sort()
              )
              const results = yield* deployment.query<{ result: unknown }>(
                "select result from nightshift.job where dedupe_key in ('shop.order/A', 'shop.nap/sleeper') order by dedupe_key"
              )
              expect(results).toEqual([
                {
                  result: {
                    first: 1,
                    second: 2
                  }
                },
                {
                  result: {
                    approval: {
                      by: "bob"
                    },
                    charged: {
                      payment: "shop.order/A/charge"
                    },
                    items: ["book"],
                    parcels: [
                      {
                        item: "A book",
                        label: "a label"
                      },
                      {
                        item: "A lamp",
                        label: "a label"
                      }
                    ]
                  }
                }
              ])
              // The open batch of the dump has closed, and what it and the deaths owed has run.
              const follow = yield* until(
                "what the dump owes has run",
                deployment.query<{ kind: string; about: string }>(
                  `select kind, coalesce(payload->>'about', payload->>'title') as about from nightshift.job
                   where kind in ('shop.report', 'shop.alarm') and status = 'done' order by 1, 2`
                ),
                (rows) => rows.length >= 8
              )
              expect(follow.map(({ about, kind }) => `${kind} ${about}`)).toEqual([
                "shop.alarm exhausted",
                "shop.alarm rejected",
                "shop.alarm requeued",
                "shop.alarm requeued",
                "shop.alarm requeued",
                "shop.alarm undefined",
                "shop.report closed",
                "shop.report open"
              ])
              const migrations = yield* deployment.query<{ name: string; by: string }>(
                "select name, applied_by as by from nightshift.migration order by number"
              )
              expect(migrations.at(-1)).toEqual({ name, by: next })
              return []
            })
        })
        expect(problemsIn(used?.pods ?? [])).toEqual([])
      }),
    600_000
  )

  it.scopedLive(
    "to a schema that needs the new release: old processes are not ready, and refuse to start",
    () =>
      Effect.gen(function* () {
        const breaking = sample.replace("-- Oldest code: 0.1.0", `-- Oldest code: ${next}`)
        const program = yield* Release.make(next, { [`${name}.sql`]: breaking })
        const deployment = yield* Deployment.make({ database: restored, app })
        yield* deployment.startPod()
        const old = yield* first(deployment)
        yield* old.untilReadyz(200)
        expect(yield* deployment.commandOf(program, "migrate")).toMatchObject({ code: 0 })
        expect(yield* old.untilReadyz(503)).toBe(
          `/readyz 503: the schema requires nightshift ${next} or later, but this process is ${Package.version.text}: upgrade it`
        )
        const refused = yield* deployment.serveToEnd()
        expect(refused.code).toBe(1)
        expect(refused.stderr).toContain(
          `The database has migration ${name}, which needs nightshift ${next} or later; this is nightshift ${Package.version.text}. Upgrade this process.`
        )
        yield* stopsWell(old)
        const fresh = yield* deployment.startPod({ program })
        yield* fresh.untilReadyz(200)
        yield* works(deployment, fresh)
      }),
    300_000
  )
})
