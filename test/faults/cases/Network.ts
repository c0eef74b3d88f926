import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Effect, Redacted } from "effect"
import * as LosingProxy from "../../support/LosingProxy.js"
import * as Nightshift from "../../support/Nightshift.js"
import * as ShapingProxy from "../../support/ShapingProxy.js"
import * as TestDatabase from "../../support/TestDatabase.js"
import * as Deployment from "../Deployment.js"
import type { FaultCase } from "../FaultCase.js"
import {
  connectionRecovery,
  crashRecovery,
  cutConnections,
  first,
  neverPolls,
  nothingLost,
  ofGroup,
  prove,
  second,
  slowJobs,
  started,
  startedIn,
  stopsWell,
  untilListening,
  wokenByNotification
} from "../Steps.js"
import { type Story, survive } from "../Survival.js"

/** Pods reach the database through a proxy that can stop forwarding without closing connections. */
const throughMiddlebox = (
  fault: (proxy: LosingProxy.Stalling, deployment: Deployment.Deployment) => ReturnType<Story["fault"]>
) =>
  Effect.gen(function* () {
    const database = yield* TestDatabase.migrated
    const proxy = yield* LosingProxy.stalling(database)
    return yield* survive({
      database: Effect.succeed(database),
      throughUrl: () => Effect.succeed(Redacted.value(proxy.url)),
      leavesSessions: true,
      losesLeases: true,
      fault: (deployment) => fault(proxy, deployment)
    })
  })

/** Pods reach the database through a proxy that slows, splits and resets connections. */
const throughProxy = (
  fault: (proxy: ShapingProxy.ShapingProxy, deployment: Deployment.Deployment) => ReturnType<Story["fault"]>,
  options: Omit<Story, "fault"> = {}
) =>
  Effect.gen(function* () {
    const database = yield* TestDatabase.migrated
    const proxy = yield* ShapingProxy.make(database)
    return yield* survive({
      ...options,
      database: Effect.succeed(database),
      throughUrl: () => Effect.succeed(Redacted.value(proxy.url)),
      fault: (deployment) => fault(proxy, deployment)
    })
  })

/** Waits until this many more jobs have ended, and returns how many did. */
const jobsEndWhile = (deployment: Deployment.Deployment, jobs: number) =>
  Effect.gen(function* () {
    const ended = () => deployment.events().filter(({ event }) => event === "end").length
    const before = ended()
    return yield* Deployment.until(
      `${jobs} jobs end`,
      Effect.sync(() => ended() - before),
      (more) => more >= jobs
    )
  })

const unanswered = /PostgreSQL did not answer \d+ statements[^"]+/

/** The connections that exist stop working in the given direction; new ones work. */
const halfOpen = (direction: { readonly replies?: boolean; readonly requests?: boolean }) =>
  throughMiddlebox((proxy, deployment) =>
    Effect.gen(function* () {
      yield* proxy.stall(direction)
      const saw = yield* Effect.raceAll(deployment.pods.map((pod) => pod.logged(unanswered)))
      yield* proxy.expire
      return [saw]
    })
  )

/** The replies to statements that contain the text are lost for some seconds, with their connections. */
const repliesLost = (text: string, seconds = 3) =>
  throughProxy(
    (proxy) =>
      Effect.gen(function* () {
        yield* proxy.shape({ losesReplyTo: text })
        yield* Deployment.until("lost replies", Effect.sync(proxy.harmed), (harmed) => harmed > 0)
        yield* Effect.sleep(`${seconds} seconds`)
        yield* proxy.shape({})
        return [`${proxy.harmed()} replies lost`]
      }),
    // Named statements travel without their text.
    { env: { DATABASE_PREPARE: "false" } }
  )

const names = fileURLToPath(new URL("../fixtures/names.mjs", import.meta.url))

export const cases: ReadonlyArray<FaultCase> = ofGroup("network", [
  {
    name: "connections half-open: nothing arrives in either direction",
    promise: nothingLost,
    recoveryLimit: [...connectionRecovery, ...crashRecovery],
    operatorSees: "The log says that statements were not answered and their connections closed",
    run: halfOpen({})
  },
  {
    name: "connections half-open: statements arrive, replies do not",
    promise: nothingLost,
    recoveryLimit: [...connectionRecovery, ...crashRecovery],
    operatorSees: "The log says that statements were not answered and their connections closed",
    run: halfOpen({ replies: true })
  },
  {
    name: "connections half-open: replies arrive, statements do not",
    promise: nothingLost,
    recoveryLimit: [...connectionRecovery, ...crashRecovery],
    operatorSees: "The log says that statements were not answered and their connections closed",
    run: halfOpen({ requests: true })
  },
  {
    name: "new connections go silent after the login",
    promise: nothingLost,
    recoveryLimit: [...connectionRecovery, ...crashRecovery],
    operatorSees: "/readyz is 503 and names the database",
    run: throughProxy(
      (proxy, deployment) =>
        Effect.gen(function* () {
          // The first statement of every connection, which checks the server.
          yield* proxy.shape({ swallows: "pg_postmaster_start_time" })
          yield* cutConnections(deployment)
          const saw = yield* (yield* first(deployment)).untilReadyz(503, /not responding|does not answer/)
          yield* Deployment.until("silent connections", Effect.sync(proxy.harmed), (harmed) => harmed >= 8)
          yield* proxy.shape({})
          return [saw, `${proxy.harmed()} connections went silent`]
        }),
      { losesLeases: true }
    )
  },
  {
    name: "no packets at all for eight seconds, new connections included",
    promise: nothingLost,
    recoveryLimit: [...connectionRecovery, ...crashRecovery],
    operatorSees: "/readyz is 503 and names the database",
    run: throughMiddlebox((proxy, deployment) =>
      Effect.gen(function* () {
        yield* proxy.stall({ new: true })
        const saw = yield* (yield* first(deployment)).untilReadyz(503, /not responding|does not answer/)
        yield* Effect.sleep("5 seconds")
        yield* proxy.expire
        yield* proxy.heal
        return [saw]
      })
    )
  },
  {
    name: "one process cut off from the database, the other not",
    promise: `${nothingLost}; the process that was cut off cannot finish jobs that the other has rescued`,
    recoveryLimit: [...connectionRecovery, ...crashRecovery],
    operatorSees: "/readyz of the process is 503; the other process logs how many jobs it rescued",
    run: Effect.gen(function* () {
      const database = yield* TestDatabase.migrated
      const proxy = yield* LosingProxy.stalling(database)
      return yield* survive({
        database: Effect.succeed(database),
        leavesSessions: true,
        fault: (deployment) =>
          Effect.gen(function* () {
            const island = yield* deployment.startPod({ env: { DATABASE_URL: Redacted.value(proxy.url) } })
            yield* startedIn(deployment, island, yield* deployment.enqueue(slowJobs(40, 4_000), island))
            const others = deployment.pods.filter((pod) => pod !== island)
            return yield* deployment.away(
              [island],
              Effect.gen(function* () {
                yield* proxy.stall({ new: true })
                const ready = yield* island.untilReadyz(503)
                const rescued = yield* Effect.raceAll(others.map((pod) => pod.logged(/re(?:ap|scu)er recover: [^"]+/)))
                yield* proxy.expire
                yield* proxy.heal
                return [ready, rescued]
              })
            )
          })
      })
    })
  },
  {
    name: "messages arrive in one-byte slices",
    promise: nothingLost,
    recoveryLimit: [],
    operatorSees: "Nothing; /readyz stays 200",
    run: throughProxy((proxy, deployment) =>
      Effect.gen(function* () {
        yield* proxy.shape({ sliced: true })
        const ended = yield* jobsEndWhile(deployment, 10)
        const saw = yield* (yield* first(deployment)).untilReadyz(200)
        yield* proxy.shape({})
        yield* prove("messages arrived in slices", proxy.shaped() > ended)
        return [saw, `${proxy.shaped()} messages in slices while ${ended} jobs ended`]
      })
    )
  },
  {
    name: "latency of 200 ms per round trip",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "Slow statements in /metrics; /readyz stays 200",
    run: throughProxy((proxy, deployment) =>
      Effect.gen(function* () {
        yield* proxy.shape({ delayMillis: 100 })
        const ended = yield* jobsEndWhile(deployment, 10)
        const began = performance.now()
        yield* Deployment.query(Redacted.value(proxy.url))("select 1")
        const took = performance.now() - began
        const saw = yield* (yield* first(deployment)).untilReadyz(200)
        yield* proxy.shape({})
        // Connecting takes at least one round trip, the statement another one.
        yield* prove(`a connection and a statement take at least 400 ms, and not ${took.toFixed(0)}`, took >= 400)
        yield* prove("messages of the processes were delayed", proxy.shaped() > ended)
        return [saw, `${proxy.shaped()} messages delayed while ${ended} jobs ended`]
      })
    )
  },
  {
    name: "connections reset at every message",
    promise: nothingLost,
    recoveryLimit: [...connectionRecovery, ...crashRecovery],
    operatorSees: "Retries in the log",
    run: throughProxy(
      (proxy) =>
        Effect.gen(function* () {
          yield* proxy.shape({ resetsUpTo: 40 })
          yield* Deployment.until("resets at every message", Effect.sync(proxy.harmed), (harmed) => harmed >= 80)
          yield* proxy.shape({})
          return [`${proxy.harmed()} connections reset`]
        }),
      { losesLeases: true }
    )
  },
  {
    name: "connections refused for six seconds",
    promise: nothingLost,
    recoveryLimit: ["DATABASE_CONNECT_TIMEOUT", ...crashRecovery],
    operatorSees: "/readyz is 503 and names the database",
    run: throughProxy(
      (proxy, deployment) =>
        Effect.gen(function* () {
          yield* proxy.shape({ refuses: true })
          const saw = yield* (yield* first(deployment)).untilReadyz(503, /not responding|does not answer/)
          yield* Effect.sleep("4 seconds")
          yield* proxy.shape({})
          yield* prove("connections were refused", proxy.harmed() > 0)
          return [saw, `${proxy.harmed()} connections refused or reset`]
        }),
      { losesLeases: true }
    )
  },
  {
    name: "the database's name resolves to another address",
    promise: `${nothingLost}; processes follow the name without a restart`,
    recoveryLimit: [...connectionRecovery, ...crashRecovery],
    operatorSees: "/readyz is 503 until the name resolves to a server that answers",
    run: Effect.gen(function* () {
      const database = yield* TestDatabase.migrated
      const folder = yield* Nightshift.folder
      const file = join(folder, "address")
      const old = yield* ShapingProxy.make(database, { host: "127.0.0.2", port: 0 })
      const url = new URL(Redacted.value(old.url))
      yield* ShapingProxy.make(database, { host: "127.0.0.3", port: Number(url.port) })
      writeFileSync(file, "127.0.0.2")
      url.hostname = "database.test"
      return yield* survive({
        database: Effect.succeed(database),
        throughUrl: () => Effect.succeed(url.href),
        env: { NODE_OPTIONS: `--import=${names}`, FAULT_ADDRESS: file },
        losesLeases: true,
        fault: (deployment) =>
          Effect.gen(function* () {
            yield* old.shape({ refuses: true })
            const saw = yield* (yield* first(deployment)).untilReadyz(503)
            writeFileSync(file, "127.0.0.3")
            return [saw, yield* (yield* first(deployment)).untilReadyz(200)]
          })
      })
    })
  },
  {
    name: "replies to COMMIT lost",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "`database unavailable` in the history of jobs whose commit did not arrive",
    run: repliesLost("COMMIT")
  },
  {
    name: "replies to claims and direct hand-offs lost",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "Rescued jobs in the log",
    run: repliesLost("insert into nightshift.lease")
  },
  {
    name: "replies to inserts of jobs lost",
    promise: `${nothingLost}; a repeated enqueue with the same id stores one job`,
    recoveryLimit: crashRecovery,
    operatorSees: "Enqueue requests answer 503 or are repeated by the process",
    run: repliesLost("insert into nightshift.job ")
  },
  {
    name: "replies to results of jobs lost",
    promise: `${nothingLost}; a result is counted once`,
    recoveryLimit: crashRecovery,
    operatorSees: "The log says that results are written again",
    run: repliesLost("dead_reason = case")
  },
  {
    name: "replies to enqueue requests lost between process and caller",
    promise: `${nothingLost}; the caller repeats the request with the same ids, and each job is stored once`,
    recoveryLimit: [],
    operatorSees: "Nothing",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          const pod = yield* second(deployment)
          let lost = 0
          const deaf: Deployment.Pod = {
            ...pod,
            request: (method, path, body) =>
              Effect.map(pod.request(method, path, body), (answer) => {
                lost += 1
                return lost % 3 === 0 ? answer : { status: 0, body: "the reply was lost" }
              })
          }
          for (let batch = 0; batch < 10; batch += 1) yield* deployment.enqueue(slowJobs(5, 1), deaf)
          return [`${lost - Math.floor(lost / 3)} replies lost`]
        })
    })
  },
  {
    name: "the listening connection half-open while queries work",
    promise: `${nothingLost}; jobs of other processes are found by polling; the process notices, listens again, and the next job wakes it`,
    recoveryLimit: [],
    operatorSees: "Nothing but a delay of at most QUEUE_POLL; /readyz stays 200",
    run: Effect.gen(function* () {
      const database = yield* TestDatabase.migrated
      const proxy = yield* LosingProxy.stalling(database)
      return yield* survive({
        database: Effect.succeed(database),
        env: { DATABASE_LISTEN_URL: Redacted.value(proxy.url) },
        pods: 1,
        fault: (deployment) =>
          Effect.gen(function* () {
            const polling = yield* first(deployment)
            const deaf = yield* deployment.startPod({ env: neverPolls })
            const sessions = yield* untilListening(deployment, 2)
            yield* proxy.stall({ new: true })
            yield* started(deployment, yield* deployment.enqueueBySql("quiet", { ms: 1 }))
            const lost = yield* Deployment.until("lost notifications", Effect.sync(proxy.held), (held) => held > 0)
            const saw = yield* polling.untilReadyz(200)
            yield* proxy.heal
            yield* stopsWell(polling)
            yield* untilListening(deployment, 1, sessions)
            const woken = yield* wokenByNotification(deployment)
            return [saw, `${lost} messages lost`, woken, yield* deaf.untilReadyz(200)]
          })
      })
    })
  }
])
