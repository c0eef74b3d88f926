import { appendFileSync } from "node:fs"
import * as Http from "node:http"
import type { AddressInfo } from "node:net"
import { fileURLToPath } from "node:url"
import { Effect, type Scope } from "effect"
import * as Nightshift from "../../support/Nightshift.js"
import * as Deployment from "../Deployment.js"
import type { FaultCase } from "../FaultCase.js"
import { token } from "../Pod.js"
import { crashRecovery, first, nothingLost, ofGroup, prove } from "../Steps.js"
import { survive } from "../Survival.js"

// Jobs that run outside of the processes: in remote workers, and at endpoints that jobs are pushed to.

const program = fileURLToPath(new URL("../fixtures/pull-worker.mjs", import.meta.url))

/** Starts a remote worker that claims from the first process. */
const pullWorker = (deployment: Deployment.Deployment, more: Readonly<Record<string, string>> = {}) =>
  Effect.gen(function* () {
    const { base } = yield* first(deployment)
    const { cwd, ledger } = deployment
    const env = { FAULT_SERVICE: base, FAULT_LEDGER: ledger, NIGHTSHIFT_ADMIN_TOKEN: token, ...more }
    const worker = yield* Nightshift.start([], { cwd, env, program })
    yield* worker.said(/claiming/)
    const absent = (times: object) =>
      appendFileSync(ledger, `${JSON.stringify({ event: "absent", pid: worker.pid, ...times })}\n`)
    return { ...worker, absent }
  })

const remoteJobs = (count: number, ms: number): ReadonlyArray<Deployment.Wanted> =>
  Array.from({ length: count }, () => ({ kind: "remote", queue: "remote", payload: { ms } }))

const startOf = (deployment: Deployment.Deployment, pid: number) =>
  Effect.map(
    Deployment.until(
      `worker ${pid} runs a job`,
      Effect.sync(() => deployment.events().find((each) => each.pid === pid && each.event === "start")),
      (event) => event !== undefined
    ),
    (event) => event?.job ?? ""
  )

const endedAs = (deployment: Deployment.Deployment, id: string) =>
  Deployment.until(
    "the job ends",
    deployment.query<{ run: string; first: string }>(
      `select result->>'run' as run, concat_ws(' ', history->0->>'outcome', history->0->>'message') as first from "${deployment.schema}".job where id = $1 and finished_at is not null`,
      [id]
    ),
    (rows) => rows.length === 1
  )

const pull: ReadonlyArray<Omit<FaultCase, "group">> = [
  {
    name: "kill -9 of a remote worker that runs jobs",
    promise: `${nothingLost}; another worker finishes the jobs`,
    recoveryLimit: crashRecovery,
    operatorSees: "The job's history says that it was rescued",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          // Only the worker that is killed takes long.
          const victim = yield* pullWorker(deployment, { FAULT_MS: "600000" })
          yield* deployment.enqueue(remoteJobs(2, 50))
          const job = yield* startOf(deployment, victim.pid)
          const from = Date.now()
          yield* victim.signal("SIGKILL")
          victim.absent({ from })
          const other = yield* pullWorker(deployment)
          const [row] = yield* endedAs(deployment, job)
          yield* prove(`the other worker has ended it: ${row?.run}`, row?.run.startsWith(`${other.pid}.`) === true)
          return [`history: ${row?.first}`]
        })
    })
  },
  {
    name: "SIGSTOP of a remote worker past its heartbeat, then SIGCONT: two workers with one job",
    promise: `${nothingLost}; the resumed worker's result is refused`,
    recoveryLimit: crashRecovery,
    operatorSees: "The worker gets the error LeaseLost",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          // So long that it cannot end before the signal; it ends soon after the worker has resumed.
          const victim = yield* pullWorker(deployment, { FAULT_MS: "15000" })
          yield* deployment.enqueue(remoteJobs(1, 50))
          const job = yield* startOf(deployment, victim.pid)
          const from = Date.now()
          yield* victim.signal("SIGSTOP")
          const other = yield* pullWorker(deployment)
          const [row] = yield* endedAs(deployment, job)
          victim.absent({ from, to: Date.now() })
          yield* victim.signal("SIGCONT")
          const [said] = yield* victim.said(new RegExp(`finished ${job}: \\S+ \\S+`))
          yield* prove(`the resumed worker has lost the lease: ${said}`, said.endsWith("LeaseLost, LeaseLost"))
          yield* prove(`the other worker has ended the job: ${row?.run}`, row?.run.startsWith(`${other.pid}.`) === true)
          const [ended] = yield* other.said(new RegExp(`finished ${job}: \\S+ \\S+`))
          yield* prove(`its second end is answered like the first: ${ended}`, ended.endsWith("done, done"))
          return ["LeaseLost"]
        })
    })
  }
]

const secret = `whsec_${Buffer.alloc(32, "f").toString("base64")}`

interface Request {
  readonly job: { readonly id: string; readonly attempt: number }
  readonly type: string
  readonly data: { readonly text: string }
}

/** What the first attempt of a job meets. */
const hostilities: Readonly<Record<string, (response: Http.ServerResponse, secretUrl: string) => void>> = {
  huge: (response) => void response.writeHead(500).end(Buffer.alloc(30 * 1024 * 1024, "x")),
  endless: (response) => {
    response.writeHead(500)
    const more = () => {
      while (!response.destroyed && response.write(Buffer.alloc(64 * 1024, "x")));
    }
    response.on("drain", more)
    more()
  },
  drip: (response) => {
    const { socket } = response
    socket?.write("HTTP/1.1 200 OK\r\n")
    const timer = setInterval(() => (socket?.destroyed === false ? socket.write("x") : clearInterval(timer)), 100)
  },
  hang: () => {},
  reset: (response) => void response.socket?.destroy(),
  redirect: (response, location) => void response.writeHead(307, { location }).end()
}

const listening = (listener: Http.RequestListener): Effect.Effect<number, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.async<Http.Server>((resume) => {
        const server = Http.createServer(listener).listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
      }),
      (server) =>
        Effect.sync(() => {
          server.close()
          server.closeAllConnections()
        })
    ),
    (server) => (server.address() as AddressInfo).port
  )

/** An endpoint that is hostile to the first attempt of each job, and runs the second. */
const endpoint = (ledger: () => string, hidden: string) => {
  let runs = 0
  return listening((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk) => chunks.push(chunk))
    request.on("end", () => {
      const { data, job, type } = JSON.parse(Buffer.concat(chunks).toString("utf8")) as Request
      const hostile = hostilities[data.text]
      if (job.attempt === 1 && hostile !== undefined) return hostile(response, hidden)
      runs += 1
      const run = `endpoint.${runs}`
      const note = (event: string) =>
        appendFileSync(
          ledger(),
          `${JSON.stringify({ event, job: job.id, kind: type, attempt: job.attempt, run, at: Date.now(), pid: process.pid })}\n`
        )
      note("start")
      const answer = () => {
        note("end")
        response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ run }))
      }
      return data.text === "slow" ? void setTimeout(answer, 1_000) : answer()
    })
  })
}

const push: ReadonlyArray<Omit<FaultCase, "group">> = [
  {
    name: "pushed jobs and an endpoint that is hostile or slow",
    promise: `${nothingLost}; each attempt ends by its timeout, no redirect to a private address is followed, and jobs of other queues go on`,
    recoveryLimit: [],
    operatorSees: "The jobs' histories say how the endpoint answered",
    run: Effect.gen(function* () {
      let ledger = ""
      let leaked = 0
      const hidden = yield* listening((_, response) => {
        leaked += 1
        response.end()
      })
      const port = yield* endpoint(() => ledger, `http://127.0.0.1:${hidden}/`)
      const env = {
        FAULT_PUSH_URL: `http://127.0.0.1:${port}/`,
        FAULT_PUSH_SECRET: secret,
        HTTP_HANDLER_ALLOW: `127.0.0.1:${port}`
      }
      return yield* survive({
        env,
        prepare: (deployment) => Effect.sync(() => (ledger = deployment.ledger)),
        fault: (deployment) =>
          Effect.gen(function* () {
            const texts = [...Object.keys(hostilities), "slow", "slow"]
            const ids = yield* deployment.enqueue(
              texts.map((text) => ({ kind: "pushed", payload: { ms: 2_000, text } }))
            )
            const rows = yield* Deployment.until(
              "the pushed jobs end",
              deployment.query<{ text: string; message: string | null }>(
                `select payload->>'text' as text, left(history->0->>'message', 120) as message
                 from "${deployment.schema}".job where id = any($1) and finished_at is not null order by id`,
                [ids]
              ),
              (found) => found.length === ids.length
            )
            const expected: Readonly<Record<string, RegExp>> = {
              huge: /responded 500: xxx/,
              endless: /responded 500: xxx/,
              drip: /HPE_|timed out/,
              hang: /timed out after 5s/,
              reset: /did not respond \(ECONNRESET\)/,
              redirect: /responded 307, a redirect, which is not followed/
            }
            for (const { message, text } of rows) {
              const pattern = expected[text]
              const holds = pattern === undefined ? message === null : pattern.test(message ?? "")
              yield* prove(`the first attempt of ${text} ended as expected: ${message}`, holds)
            }
            yield* prove("no request followed the redirect", leaked === 0)
            return rows.flatMap(({ message, text }) => (message === null ? [] : [`${text}: ${message.slice(0, 60)}`]))
          })
      })
    })
  }
]

export const cases: ReadonlyArray<FaultCase> = [...ofGroup("processes", pull), ...ofGroup("network", push)]
