import { Effect } from "effect"
import * as Deployment from "../Deployment.js"
import { type FaultCase, millisOf } from "../FaultCase.js"
import {
  byLead,
  crashRecovery,
  first,
  hostile,
  lockingJobs,
  nothingLost,
  ofGroup,
  second,
  slowJobs,
  started,
  startedIn,
  ticksOnce
} from "../Steps.js"
import { survive } from "../Survival.js"

// Processes that do not end and do not answer.

export const cases: ReadonlyArray<FaultCase> = ofGroup("processes", [
  {
    name: "SIGSTOP of a process past its lease, then SIGCONT",
    promise: `${nothingLost}; the resumed process cannot finish jobs that another process has rescued, nor commit their transactions`,
    recoveryLimit: crashRecovery,
    operatorSees: "Another process logs how many jobs it rescued; the resumed process reports a late heartbeat",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          const victim = yield* first(deployment)
          yield* deployment.enqueue(slowJobs(10, 1_500), victim)
          // Their transactions stay open while the pod is stopped, and must not commit when it resumes.
          const open = Array.from({ length: 6 }, () => ({ kind: "once", payload: { ms: 3_000 } }))
          const mine = yield* startedIn(deployment, victim, yield* deployment.enqueue(open, victim))
          yield* victim.signal("SIGSTOP")
          const saw = yield* (yield* second(deployment)).logged(/reaper recover: [^"]+/)
          yield* Deployment.until(
            "another process ends a transactional job that the stopped process runs",
            deployment.query(`select from "${deployment.schema}".job where id = any($1) and finished_at is not null`, [
              mine
            ]),
            (rows) => rows.length > 0
          )
          yield* victim.signal("SIGCONT")
          return [saw]
        })
    })
  },
  {
    name: "SIGSTOP of a process whose transaction holds a lock on its job",
    promise: `${nothingLost}; another process ends the transaction and finishes the job before the process resumes`,
    recoveryLimit: [...crashRecovery, "QUEUE_REAPER_INTERVAL", "QUEUE_REAPER_INTERVAL"],
    operatorSees: "Another process logs that it ended the session",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          const [victim, other] = [yield* first(deployment), yield* second(deployment)]
          const ids = yield* deployment.enqueue(lockingJobs(6), victim)
          const mine = yield* startedIn(deployment, victim, ids)
          // The run reports its start before it locks the row.
          yield* Deployment.until(
            "its transaction locks the job",
            deployment.query<{ id: string }>(
              `select id from "${deployment.schema}".job where id = any($1) for update skip locked`,
              [mine]
            ),
            (rows) => rows.length < mine.length
          )
          yield* victim.signal("SIGSTOP")
          const saw = yield* other.logged(/ended \d+ database sessions[^"]+/)
          yield* Deployment.until(
            "its jobs end",
            deployment.query<{ id: string }>(
              `select id from "${deployment.schema}".job where id = any($1) and finished_at is null`,
              [mine]
            ),
            (rows) => rows.length === 0
          )
          yield* victim.signal("SIGCONT")
          return [saw]
        })
    })
  },
  {
    name: "SIGSTOP of the leader past its lease, then SIGCONT",
    promise: `${nothingLost}; the old leader writes nothing under its old term; every tick fires at most once`,
    recoveryLimit: [...crashRecovery, "NIGHTSHIFT_LEASE"],
    operatorSees: "Both processes log the change of leadership",
    run: survive({
      env: { FAULT_SCHEDULE: "1" },
      fault: (deployment) =>
        Effect.gen(function* () {
          const { follower, leader } = yield* byLead(deployment)
          yield* leader.signal("SIGSTOP")
          const saw = yield* follower.logged(/leading the cluster[^"]*/)
          yield* leader.signal("SIGCONT")
          return [saw, yield* leader.logged(/no longer leading the cluster/)]
        }),
      afterwards: ticksOnce
    })
  },
  {
    name: "event loop blocked longer than QUEUE_STALE_AFTER",
    promise: `${nothingLost}; the blocked process cannot finish jobs that another process has rescued`,
    recoveryLimit: crashRecovery,
    operatorSees: "The log names the kinds that ran while the event loop was blocked",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          const [id] = yield* deployment.enqueue([hostile("block", { ms: 2 * millisOf("QUEUE_STALE_AFTER") })])
          const runs = yield* started(deployment, id)
          const victim = runs.find(({ job }) => job === id)?.pid
          const blocked = deployment.pods.filter(({ pid }) => pid === victim)
          // Other heartbeats may be late on a busy machine; this one names the kind.
          return [yield* Effect.raceAll(blocked.map((pod) => pod.logged(/the heartbeat was [\d.]+s late[^"]+hostile/)))]
        })
    })
  }
])
