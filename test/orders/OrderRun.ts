import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { Effect, Fiber, FiberSet, Schedule, type Scope } from "effect"
import * as Caller from "../faults/Caller.js"
import * as Deployment from "../faults/Deployment.js"
import { millisOf } from "../faults/FaultCase.js"
import * as HistoryChecker from "../faults/HistoryChecker.js"
import * as Stuck from "../faults/Stuck.js"
import { follow } from "../soak/SoakLedger.js"
import { randomOf } from "../soak/SoakLoad.js"
import * as BankCheck from "./BankCheck.js"

export interface OrderRunOptions {
  readonly orders: number
  readonly kills: number
  readonly seed: number
  readonly print: (line: string) => void
}

export interface OrderReport extends BankCheck.BankReport {
  /** Number of orders by plan and end. */
  readonly ends: Readonly<Record<string, number>>
  readonly faults: Readonly<Record<string, number>>
  readonly refusals: Readonly<Record<string, number>>
}

/** What is meant to happen to an order. `on` is the entry of the bank's book at which it is cancelled. */
interface Plan {
  readonly name: string
  readonly approves: boolean
  readonly plan: string
  readonly cancelOn?: { readonly event: string; readonly ofChild: boolean }
}

const plans: ReadonlyArray<Plan> = [
  { name: "approved", approves: true, plan: "" },
  { name: "approved", approves: true, plan: "" },
  { name: "approved before the start", approves: true, plan: "" },
  { name: "not approved", approves: false, plan: "unapproved" },
  { name: "fails at its end", approves: true, plan: "fails" },
  { name: "a parcel fails", approves: true, plan: "parcel fails" },
  { name: "cancelled during a step", approves: true, plan: "", cancelOn: { event: "charge begins", ofChild: false } },
  { name: "cancelled during a wait", approves: false, plan: "" },
  {
    name: "cancelled during undo",
    approves: false,
    plan: "unapproved",
    cancelOn: { event: "refund begins", ofChild: false }
  },
  { name: "cancelled during children", approves: true, plan: "", cancelOn: { event: "charge begins", ofChild: true } }
]

const app = fileURLToPath(new URL("fixtures/order-app.mjs", import.meta.url))
const pods = 3

interface ExecutionRow extends HistoryChecker.JobRow {
  readonly kind: string
  readonly recorded: ReadonlyArray<string>
  /** The numbers of the lines in the stream of an order. */
  readonly packed: string | null
}

/** What a complete stream holds. */
const allPacked = "1, 2, 3, 4"

const executionsOf = (schema: string) => `
  select dedupe_key as id, kind, status, attempt, max_attempts as "attempts", result->>'run' as run,
    dead_reason as "reason", array(
      select s.name from "${schema}".workflow_step s where s.job_id = j.id and s.outcome = 'done') as recorded, (
      select string_agg(line, ', ' order by c.number, place)
      from "${schema}".workflow_chunk c cross join jsonb_array_elements_text(c.chunks::jsonb) with ordinality as e(line, place)
      where c.job_id = j.id and c.name = 'packing') as packed
  from "${schema}".job j order by id`

/** Starts orders on real processes, disturbs them, and compares their ends with the bank's book. */
export const run = (options: OrderRunOptions): Effect.Effect<OrderReport, unknown, Scope.Scope> =>
  Effect.gen(function* () {
    const { kills, orders, print, seed } = options
    const random = randomOf(seed)
    const deployment = yield* Deployment.make({ app })
    yield* deployment.query("create table public.fault_booking (execution text not null)")
    const caller = Caller.make(deployment)
    const planOf = new Map<string, Plan>()
    const acknowledged = new Set<string>()
    const attempted: Array<HistoryChecker.Attempted> = []
    const faults: Record<string, number> = {}
    const did = (fault: string) => {
      faults[fault] = (faults[fault] ?? 0) + 1
      print(fault)
    }
    const background = yield* FiberSet.make<void>()
    const path = (id: string, action: string) => `/api/v1/workflows/${encodeURIComponent(id)}/${action}`
    const approve = (id: string) =>
      caller.insist("approve", path(id, "signal"), { name: "approval", value: { by: `approver of ${id}` } })
    // An order may have ended before its cancel arrives.
    const cancel = (id: string) => caller.insist("cancel", path(id, "cancel"), { reason: "the order run" })

    const begin = (plan: Plan, isHeld = false) =>
      Effect.gen(function* () {
        const key = `${seed}-${planOf.size + 1}`
        const id = `order/${key}`
        planOf.set(id, plan)
        attempted.push({ id, kind: "order", expected: "either", value: `approver of ${id}` })
        if (plan.name === "approved before the start") yield* approve(id)
        const payload = { id: key, ms: 40 + Math.floor(random() * 160), plan: plan.plan, items: ["book", "lamp"] }
        const answer = yield* caller.insist("start", "/api/v1/workflows", { workflow: "order", key, payload })
        if (!Caller.isSuccess(answer)) return yield* Effect.die(new Error(`start: ${answer.status} ${answer.body}`))
        acknowledged.add(id)
        if (plan.approves && !isHeld) yield* Effect.delay(approve(id), `${Math.floor(random() * 1_500)} millis`)
        if (plan.name === "cancelled during a wait")
          yield* Effect.delay(cancel(id), `${500 + Math.floor(random() * 1_000)} millis`)
        return id
      })

    // Cancels orders at the entry of the book that their plan names.
    const newLines = follow(deployment.ledger)
    const cancelled = new Set<string>()
    let latest: BankCheck.BookEntry | undefined
    const watch = Effect.suspend(() => {
      const entries = newLines()
        .map((line) => JSON.parse(line) as BankCheck.BookEntry)
        .filter((entry) => entry.execution !== undefined)
      latest = entries.findLast(({ event }) => event === "charged" || event === "refunded") ?? latest
      const due = entries.flatMap(({ event, execution }) => {
        const ofChild = execution.startsWith("parcel/")
        const id = ofChild ? execution.replace(/^parcel\/(.*)-\w+$/, "order/$1") : execution
        const on = planOf.get(id)?.cancelOn
        return on?.event === event && on.ofChild === ofChild && !cancelled.has(id) ? [id] : []
      })
      return Effect.forEach(new Set(due), (id) => {
        cancelled.add(id)
        return FiberSet.run(background, Effect.asVoid(cancel(id)))
      })
    })
    const watching = yield* Effect.forkScoped(Effect.repeat(watch, Schedule.spaced("10 millis")))

    const running = () => deployment.pods.filter((pod) => pod.isAlive())
    // Like an orchestrator: a pod that ends, however it ends, is replaced by one of the wanted release.
    let release = 1
    let isStopping = false
    const releases = new Map<number, number>()
    const keepPod: Effect.Effect<void, unknown, Scope.Scope> = Effect.gen(function* () {
      while (!isStopping) {
        const wanted = release
        const started = yield* Effect.either(deployment.startPod({ env: { FAULT_RELEASE: String(wanted) } }))
        if (started._tag === "Left") {
          print(`a pod did not start: ${started.left}`)
          continue
        }
        releases.set(started.right.pid, wanted)
        yield* started.right.finished
      }
    })
    const roll = (wanted: number) =>
      Effect.gen(function* () {
        release = wanted
        for (;;) {
          yield* Deployment.until("all pods run", Effect.sync(running), (all) => all.length === pods)
          const old = running().find(({ pid }) => releases.get(pid) !== wanted)
          if (old === undefined) break
          yield* old.signal("SIGTERM")
          yield* old.finished
        }
        did(`release ${wanted} is rolled out`)
      })

    /** A pod in which a charge or refund has just taken effect and is not recorded yet; any pod if there is none. */
    const busyPod = Effect.gen(function* () {
      const before = latest
      yield* Effect.repeat(Effect.sleep("5 millis"), {
        while: () => latest === before,
        schedule: Schedule.recurs(400)
      })
      const alive = running()
      return alive.find(({ pid }) => pid === latest?.pid) ?? alive[Math.floor(random() * alive.length)]
    })
    const disturb = Effect.gen(function* () {
      yield* Deployment.until("two pods run", Effect.sync(running), (all) => all.length >= 2)
      const victim = yield* busyPod
      yield* victim?.signal("SIGKILL") ?? Effect.void
      did("a pod is killed with -9")
      const dice = random()
      if (dice < 0.15) {
        const frozen = yield* busyPod
        yield* frozen?.signal("SIGSTOP") ?? Effect.void
        yield* Effect.sleep(millisOf("QUEUE_STALE_AFTER") + 3 * millisOf("QUEUE_REAPER_INTERVAL"))
        yield* frozen?.signal("SIGCONT") ?? Effect.void
        did("a pod is stopped past its lease")
      } else if (dice < 0.35) {
        yield* deployment.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()`
        )
        did("all connections are cut")
      }
    })

    /** Starts the orders and kills the pods of a part of the run, evenly mixed. */
    const phase = (from: number, to: number) =>
      Effect.gen(function* () {
        const shareOf = (all: number) => Math.round(all * to) - Math.round(all * from)
        const [some, times] = [shareOf(orders), shareOf(kills)]
        const steps = Math.max(some, times)
        const isDue = (count: number, step: number) =>
          Math.floor(((step + 1) * count) / steps) > Math.floor((step * count) / steps)
        for (let step = 0; step < steps; step += 1) {
          const plan = plans[planOf.size % plans.length]
          if (isDue(some, step) && plan !== undefined) yield* FiberSet.run(background, Effect.asVoid(begin(plan)))
          yield* Effect.sleep(`${50 + Math.floor(random() * 100)} millis`)
          if (isDue(times, step)) yield* disturb
        }
      })

    yield* Effect.replicateEffect(Effect.forkScoped(keepPod), pods)
    yield* Deployment.until("all pods run", Effect.sync(running), (all) => all.length === pods)
    yield* phase(0, 0.35)
    yield* Effect.all([phase(0.35, 0.7), roll(2)], { concurrency: 2 })

    // By mistake a release renames the first step. Orders that wait for their approval must not follow it.
    const held = yield* Effect.replicateEffect(
      Effect.suspend(() => begin({ name: "approved", approves: true, plan: "" }, true)),
      Math.max(3, Math.round(orders / 20)),
      { concurrency: "unbounded" }
    )
    yield* FiberSet.awaitEmpty(background)
    const charged = deployment.query(
      `select 1 from "${deployment.schema}".job j where kind = 'order' and finished_at is null and not exists (
         select from "${deployment.schema}".workflow_step s where s.job_id = j.id and s.name = 'charge')`
    )
    yield* Deployment.until("every order is charged", charged, (rows) => rows.length === 0)
    yield* roll(3)
    yield* Effect.forEach(held, (id) => approve(id), { discard: true })
    const changed = deployment.query(`select 1 from "${deployment.schema}".workflow_deferred where kind = 'changed'`)
    yield* Deployment.until("orders notice the changed code", changed, (rows) => rows.length > 0)
    did("orders notice changed code")
    yield* roll(2)
    // An operator does not wait until they try again by themselves.
    const stopped = yield* deployment.query<{ id: string }>(
      `select execution as id from "${deployment.schema}".workflow_deferred where kind = 'changed' and waiting`
    )
    yield* Effect.forEach(stopped, ({ id }) => caller.insist("try now", path(id, "retry"), {}), { discard: true })
    yield* phase(0.7, 1)
    yield* FiberSet.awaitEmpty(background)
    print("every order is started")

    const unfinished = deployment.query<{ id: string }>(
      `select dedupe_key as id from "${deployment.schema}".job where finished_at is null limit 5`
    )
    yield* Deployment.until("every order ends", unfinished, (rows) => rows.length === 0).pipe(
      Effect.catchAll((error) =>
        Effect.flatMap(Stuck.describe(deployment), (stuck) => Effect.fail(new Error(`${error.message}\n${stuck}`)))
      )
    )
    yield* Fiber.interrupt(watching)
    isStopping = true
    for (const pod of running()) {
      yield* pod.signal("SIGTERM")
      yield* pod.finished
    }

    const rows = yield* deployment.query<ExecutionRow>(executionsOf(deployment.schema))
    const history = HistoryChecker.check({
      attempted,
      acknowledged,
      rows: rows.filter(({ kind }) => kind === "order"),
      events: deployment.events().filter(({ run }) => run !== undefined),
      absences: deployment.absences(),
      committed: (yield* deployment.query<{ execution: string }>("select execution from public.fault_booking")).map(
        ({ execution }) => execution
      ),
      changedAfterEnd: []
    })
    const book = readFileSync(deployment.ledger, "utf8")
      .split("\n")
      .filter((line) => line.includes('"payment"'))
      .map((line) => JSON.parse(line) as BankCheck.BookEntry)
    const bank = BankCheck.check({
      book,
      ended: rows.map(({ id, ...row }) => ({ ...row, execution: id })),
      absences: deployment.absences()
    })
    const torn = rows.flatMap(({ id, kind, packed, status }) =>
      kind === "order" && status === "done" && packed !== allPacked
        ? [`${id} is done, and its stream is ${packed}`]
        : []
    )
    const ends: Record<string, number> = {}
    for (const { reason, id, kind, status } of rows) {
      if (kind !== "order") continue
      const end = `${planOf.get(id)?.name}: ${reason ?? status}`
      ends[end] = (ends[end] ?? 0) + 1
    }
    return { ...bank, violations: [...history, ...bank.violations, ...torn], ends, faults, refusals: caller.refusals }
  })
