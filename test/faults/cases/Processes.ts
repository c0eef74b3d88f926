import { Effect, Schedule } from "effect"
import * as Deployment from "../Deployment.js"
import { type FaultCase, millisOf, pace, patient } from "../FaultCase.js"
import {
  byLead,
  crashRecovery,
  first,
  hostile,
  nothingLost,
  ofGroup,
  prove,
  second,
  slowJobs,
  started,
  startedIn,
  stopsWell,
  ticksOnce
} from "../Steps.js"
import { survive } from "../Survival.js"

const rescued = /re(?:ap|scu)er recover: [^"]+/

/** A job that ends its process once; another pod finishes it. */
const endsItsProcess = (act: string, line: RegExp, env: Readonly<Record<string, string>> = {}) =>
  survive({
    env,
    fault: (deployment) =>
      Effect.gen(function* () {
        const [id] = yield* deployment.enqueue([hostile(act)])
        yield* started(deployment, id)
        const ended = deployment.pods.map((pod) => Effect.as(pod.finished, pod))
        const victim = yield* Effect.raceAll(ended)
        const { stderr } = yield* victim.finished
        const found = line.exec(stderr)
        if (found === null)
          return yield* Effect.fail(new Error(`the log does not match ${line}: ${stderr.slice(-800)}`))
        return [`log: ${found[0].slice(0, 160)}`]
      })
  })

export const cases: ReadonlyArray<FaultCase> = ofGroup("processes", [
  {
    name: "kill -9 of a process that runs jobs",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "Another process logs how many jobs it rescued",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          const [victim, other] = [yield* first(deployment), yield* second(deployment)]
          yield* startedIn(deployment, victim, yield* deployment.enqueue(slowJobs(10, 2_000), victim))
          yield* victim.signal("SIGKILL")
          // The other pod renews its leases: jobs that run longer than QUEUE_STALE_AFTER are not rescued.
          yield* deployment.enqueue(slowJobs(2, 1.5 * millisOf("QUEUE_STALE_AFTER")), other)
          return [yield* other.logged(rescued)]
        })
    })
  },
  {
    name: "kill -9 of all processes at once",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "A new process logs how many jobs it rescued",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          yield* deployment.enqueue(slowJobs(5, 1_000))
          for (const pod of deployment.pods) yield* pod.signal("SIGKILL")
          const fresh = yield* deployment.startPod()
          return [yield* fresh.logged(rescued)]
        })
    })
  },
  {
    name: "processes killed with -9 one after another",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "Restarted processes, and rescued jobs in the log",
    run: survive({
      podOptions: { restarts: true },
      fault: (deployment) =>
        Effect.gen(function* () {
          // On a busy machine the next pod may start later than the next kill.
          const alive = Deployment.until(
            "a live process",
            Effect.sync(() => deployment.pods.find((pod) => pod.isAlive())),
            (pod) => pod !== undefined
          )
          const killOne = Effect.flatMap(alive, (victim) =>
            victim === undefined ? Effect.void : Effect.zipRight(victim.signal("SIGKILL"), victim.finished)
          )
          yield* Effect.repeat(killOne, Schedule.spaced("1500 millis").pipe(Schedule.intersect(Schedule.recurs(3))))
          yield* Deployment.until(
            "restarted processes",
            Effect.sync(() => deployment.pods.filter((pod) => pod.isAlive()).length),
            (alive) => alive >= 2 && deployment.pods.length >= 5
          )
          yield* prove("at least three processes restarted", deployment.pods.length >= 5)
          return [`${deployment.pods.length - 2} processes restarted`]
        })
    })
  },
  {
    name: "kill -9 of the leader while a schedule fires every second",
    promise: `${nothingLost}; every tick fires at most once`,
    recoveryLimit: [...crashRecovery, "NIGHTSHIFT_LEASE"],
    operatorSees: "Another process logs that it leads",
    run: survive({
      env: { FAULT_SCHEDULE: "1" },
      fault: (deployment) =>
        Effect.gen(function* () {
          const { follower, leader } = yield* byLead(deployment)
          yield* leader.signal("SIGKILL")
          return [yield* follower.logged(/leading the cluster[^"]*/)]
        }),
      afterwards: ticksOnce
    })
  },
  {
    name: "process.exit in a handler",
    promise: `${nothingLost}; another process finishes the job`,
    recoveryLimit: crashRecovery,
    operatorSees: "The log names the jobs that ran when the process ended",
    run: endsItsProcess("exit", /exit code 3 ends the process while[^"]+/)
  },
  {
    name: "out of memory in a handler",
    promise: `${nothingLost}; another process finishes the job`,
    recoveryLimit: crashRecovery,
    operatorSees: "Node prints that the heap is exhausted",
    run: endsItsProcess("memory", /heap out of memory/, { NODE_OPTIONS: "--max-old-space-size=128" })
  },
  {
    name: "unhandled promise rejection",
    promise: `${nothingLost}; another process finishes the job`,
    recoveryLimit: crashRecovery,
    operatorSees: "The log names the error and the jobs that ran",
    run: endsItsProcess("rejection", /an unhandled promise rejection \(RangeError[^"]+/)
  },
  {
    name: "error thrown in a timer",
    promise: `${nothingLost}; another process finishes the job`,
    recoveryLimit: crashRecovery,
    operatorSees: "The log names the error and the jobs that ran",
    run: endsItsProcess("timer", /an uncaught error \(TypeError[^"]+/)
  },
  {
    name: "handler that throws after its timeout aborted it",
    promise: `${nothingLost}; the attempt counts as timed out and the job is retried`,
    recoveryLimit: [],
    operatorSees: "The job's history shows the timeout",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          const [id] = yield* deployment.enqueue([hostile("throwAfterAbort")])
          const [row] = yield* Deployment.until(
            "the job is retried",
            deployment.query<{ status: string; outcome: string; message: string }>(
              `select status, history->0->>'outcome' as outcome, split_part(history->0->>'message', E'\n', 1) as message from "${deployment.schema}".job where id = $1`,
              [id]
            ),
            (rows) => rows[0]?.status === "done"
          )
          const history = `${row?.outcome}: ${row?.message}`
          yield* prove(`the first attempt timed out: ${history}`, /^failed: timed out/.test(history))
          return [`history: ${history}`]
        })
    })
  },
  {
    name: "handler that ignores interruption",
    promise: `${nothingLost}; the slot is replaced and the job is retried`,
    recoveryLimit: [],
    operatorSees: "The log says that the slot is abandoned; nightshift_slots_abandoned_total rises",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          yield* deployment.enqueue([hostile("deaf", { ms: 15_000 })])
          const line = /a handler did not stop when interrupted[^"]+/
          return [yield* Effect.raceAll(deployment.pods.map((pod) => pod.logged(line)))]
        })
    })
  },
  {
    name: "SIGTERM while quick and slow jobs run",
    promise: `${nothingLost}; the process exits with 0, and jobs that outlast SHUTDOWN_GRACE return to the queue with their attempt`,
    recoveryLimit: [],
    operatorSees: "/readyz is 503 while the process drains; exit code 0",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          const victim = yield* first(deployment)
          const ids = yield* deployment.enqueue([hostile("wait", { ms: 3_900 }), ...slowJobs(6, 300)], victim)
          yield* started(deployment, ids[0])
          const stopping = yield* Effect.fork(stopsWell(victim))
          const saw = yield* victim.untilReadyz(503, /shutting down/)
          yield* stopping
          return [saw, "exit code 0"]
        })
    })
  },
  {
    name: "SIGTERM twice",
    promise: `${nothingLost}; the process exits at once`,
    recoveryLimit: crashRecovery,
    operatorSees: "Exit code 143",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          const victim = yield* first(deployment)
          yield* deployment.enqueue(slowJobs(6, 3_000), victim)
          yield* victim.signal("SIGTERM")
          yield* victim.logged(/shutting down/)
          yield* victim.signal("SIGTERM")
          const { code, signal } = yield* victim.finished
          yield* prove(`the process exits with 143, and not ${code ?? signal}`, code === 143)
          return [`exit code ${code}`]
        })
    })
  },
  {
    name: "job that kills every process that runs it",
    promise: `${nothingLost}; the job is quarantined as poison after five crashes, and its neighbours finish`,
    recoveryLimit: [...crashRecovery],
    operatorSees: "The job is dead with the reason `poison`",
    run: survive({
      podOptions: { restarts: true },
      fault: (deployment) =>
        Effect.gen(function* () {
          const [id] = yield* deployment.enqueue([{ ...hostile("exit", { times: 1_000 }), expected: "dead" }])
          const [row] = yield* Deployment.until(
            "the job is quarantined",
            deployment.query<{ reason: string; crashes: number }>(
              `select dead_reason as reason, crash_count as crashes from "${deployment.schema}".job where id = $1`,
              [id]
            ),
            (rows) => rows[0]?.reason === "poison",
            240 * pace
          )
          yield* prove(`the job died after five crashes, and not ${row?.crashes}`, row?.crashes === 5)
          return [`dead: ${row?.reason} after ${row?.crashes} crashes`]
        })
    })
  },
  {
    name: "rolling restart of all processes under load",
    promise: `${nothingLost}; no attempt is used up`,
    recoveryLimit: [],
    operatorSees: "Each process exits with 0",
    run: survive({
      env: patient,
      fault: (deployment) =>
        Effect.gen(function* () {
          for (const old of [...deployment.pods]) {
            yield* deployment.startPod()
            yield* stopsWell(old)
          }
          const crashed = yield* deployment.query(`select from "${deployment.schema}".job where crash_count > 0`)
          if (crashed.length > 0) return yield* Effect.fail(new Error(`${crashed.length} jobs count as crashed`))
          return ["exit code 0 of each process"]
        })
    })
  },
  {
    name: "kill -9 while a queue is paused",
    promise: `${nothingLost}; no job of the paused queue starts until it is resumed`,
    recoveryLimit: crashRecovery,
    operatorSees: "The queue shows as paused, its jobs wait",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          const [victim, other] = [yield* first(deployment), yield* second(deployment)]
          const pause = (paused: boolean) => other.request("PATCH", "/api/v1/queues/work", { paused })
          yield* Deployment.until("the pause", pause(true), ({ status }) => status === 200)
          const claims = deployment.query<{ claim: string }>(
            `select concat_ws(' ', id, started_at) as claim from "${deployment.schema}".job
             where queue = 'work' and started_at is not null`
          )
          const before = new Set((yield* claims).map(({ claim }) => claim))
          yield* deployment.enqueue(slowJobs(5, 10))
          yield* victim.signal("SIGKILL")
          yield* other.logged(/reaper processes: [^"]+/)
          yield* deployment.startPod()
          const late = (yield* claims).filter(({ claim }) => !before.has(claim))
          if (late.length > 0) return yield* Effect.fail(new Error(`${late.length} jobs claimed from a paused queue`))
          const waiting = yield* deployment.query(
            `select from "${deployment.schema}".job where status = 'pending' and queue = 'work'`
          )
          yield* prove("jobs waited in the paused queue", waiting.length >= 5)
          yield* Deployment.until("the resume", pause(false), ({ status }) => status === 200)
          return [`${waiting.length} jobs waited`]
        })
    })
  },
  {
    name: "kill -9 before scheduled jobs are due",
    promise: `${nothingLost}; no job starts before its time`,
    recoveryLimit: crashRecovery,
    operatorSees: "The jobs show as scheduled",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          const victim = yield* first(deployment)
          const due = Array.from({ length: 10 }, (_, index) => ({
            kind: "work",
            payload: { ms: 1 },
            delayMillis: 2_000 + index * 300
          }))
          const ids = yield* deployment.enqueue(due, victim)
          yield* victim.signal("SIGKILL")
          yield* victim.finished
          const waiting = yield* deployment.query(
            `select from "${deployment.schema}".job where id = any($1) and started_at is null`,
            [ids]
          )
          yield* prove("the process was killed before jobs were due", waiting.length > 0)
          return [`${waiting.length} jobs waited`]
        })
    })
  },
  {
    name: "retry storm: sixty jobs fail at once, three times",
    promise: `${nothingLost}; every job ends as done`,
    recoveryLimit: [],
    operatorSees: "Retries in the jobs' histories",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          yield* deployment.enqueue(Array.from({ length: 60 }, () => hostile("fail", { times: 3 })))
          const [row] = yield* Deployment.until(
            "the retries",
            deployment.query<{ count: number }>(
              `select count(*)::int as count from "${deployment.schema}".job where jsonb_array_length(history) >= 3`
            ),
            (rows) => (rows[0]?.count ?? 0) >= 60
          )
          return [`${row?.count} jobs with three failed attempts in their history`]
        })
    })
  }
])
