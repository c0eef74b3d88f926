import { Effect, Fiber } from "effect"
import { digestOf } from "../../../src/database/SubjectText.js"
import { dump, linesWith } from "../../support/Dump.js"
import * as Deployment from "../Deployment.js"
import type { FaultCase } from "../FaultCase.js"
import {
  crashRecovery,
  first,
  nothingLost,
  ofGroup,
  otherProgram,
  prove,
  second,
  slowJobs,
  startedIn
} from "../Steps.js"
import { survive } from "../Survival.js"

const subject = "customer:quartz-77"
const marker = "Zebulon Quartz"
const other = "Otto Keep"
/** Jobs that one transaction of an erasure takes. */
const perTransaction = 500

const jobsOf = (text: string, own: string, count: number): ReadonlyArray<Deployment.Wanted> =>
  Array.from({ length: count }, () => ({ kind: "work", payload: { ms: 1, text }, subject: own, expected: "either" }))

export const cases: ReadonlyArray<FaultCase> = ofGroup("processes", [
  {
    name: "kill -9 of a process in the middle of an erasure",
    promise: `${nothingLost}; a second call erases what the first has left, no erased job runs again, and jobs of others keep their data`,
    recoveryLimit: crashRecovery,
    operatorSees: "The request ends without a response; repeated, it says how many jobs it has erased",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          const [victim, survivor] = [yield* first(deployment), yield* second(deployment)]
          const job = `"${deployment.schema}".job`
          const ids = yield* deployment.enqueue(jobsOf(marker, subject, perTransaction + 200))
          const kept = yield* deployment.enqueue(jobsOf(other, "customer:otto", 20))
          yield* Deployment.until(
            "the jobs end",
            deployment.query(`select from ${job} where id = any($1) and finished_at is not null`, [[...ids, ...kept]]),
            (rows) => rows.length === ids.length + kept.length
          )
          const running = yield* deployment.enqueue(
            slowJobs(8, 60_000).map((slow) => ({ ...slow, subject, expected: "either" as const })),
            victim
          )
          yield* startedIn(deployment, victim, running)
          const holder = yield* otherProgram(deployment.databaseUrl)
          const before = yield* Effect.promise(() => dump(holder))
          // The second transaction of the erasure waits for this row.
          yield* Effect.promise(() => holder.query("begin"))
          yield* Effect.promise(() => holder.query(`select from ${job} where id = $1 for update`, [ids.at(-1)]))
          const call = yield* Effect.forkScoped(victim.request("POST", "/api/v1/erase", { subject }))
          const erased = Effect.map(
            deployment.query(`select from ${job} where meta ? 'subjectErasedAt'`),
            (rows) => rows.length
          )
          yield* Deployment.until(
            "the erasure waits in its second transaction",
            Effect.all([
              erased,
              deployment.query(
                `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%subjectDigest%for update%'`
              )
            ]),
            ([done, waiting]) => done === perTransaction && waiting.length === 1
          )
          yield* victim.signal("SIGKILL")
          const { signal } = yield* victim.finished
          const { status } = yield* Fiber.join(call)
          yield* prove(`the process is killed, and not ${signal}`, signal === "SIGKILL")
          yield* prove(`the request has no response, and not ${status}`, status === 0)
          yield* Effect.promise(() => holder.query("rollback"))
          const half = yield* Effect.promise(() => dump(holder))
          const isHalf = (yield* erased) === perTransaction && linesWith(half, marker).length > 0
          yield* prove("the erasure was killed in the middle", isHalf)

          const last = yield* Deployment.until(
            "the second call erases the rest",
            survivor.request("POST", "/api/v1/erase", { subject }),
            ({ body, status }) => status === 200 && JSON.parse(body).done === true
          )
          const starts = () =>
            deployment.events().filter(({ event, job }) => event === "start" && [...ids, ...running].includes(job))
              .length
          const startsBefore = starts()
          const after = yield* Effect.promise(() => dump(holder))
          for (const text of [marker, subject, digestOf(subject)])
            yield* prove(`nothing of ${text} is left`, linesWith(after, text).length === 0)
          yield* prove("all its jobs are erased", (yield* erased) === ids.length + running.length)
          const [mine, now] = [new Set(linesWith(before, other)), new Set(linesWith(after, other))]
          yield* prove(
            "jobs of another person keep their data",
            mine.size >= kept.length && [...mine].every((line) => now.has(line))
          )
          for (const id of [ids[0], ids.at(-1), ...running]) {
            const { status } = yield* survivor.request("POST", `/api/v1/jobs/${id}/requeue`)
            yield* prove(`an erased job is not requeued, but ${status}`, status === 409)
          }
          yield* prove("no erased job has started", starts() === startsBefore)
          return [`killed after ${perTransaction} jobs; the second call: ${/"jobs":\d+/.exec(last.body)?.[0]}`]
        })
    })
  }
])
