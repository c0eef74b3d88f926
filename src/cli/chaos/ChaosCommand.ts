import { Duration, Effect, Option, Random, Schema } from "effect"
import { DatabaseConfig } from "../../database/DatabaseConfig.js"
import { isLoopback, ServerConfig } from "../../http/ServerConfig.js"
import * as CommonOptions from "../CommonOptions.js"
import { SomeFailed, UsageError } from "../Failure.js"
import * as Command from "../kit/Command.js"
import * as Input from "../kit/Input.js"
import * as ServiceClient from "../ServiceClient.js"
import * as Settings from "../Settings.js"
import { print, stack, table } from "../Terminal.js"
import * as ChaosDatabase from "./ChaosDatabase.js"
import { faults } from "./ChaosFaults.js"
import * as ChaosRun from "./ChaosRun.js"

/** Names that people give to deployments they may break. */
const rehearsal = /(^|[^a-z])(stag(e|ing)?|test(ing)?|dev|local|sandbox|qa|ci|preview|localhost)([^a-z]|$)/i

/** Returns why the target looks like production; empty if it does not. */
export const signsOfProduction = (hosts: ReadonlyArray<string>, otherJobs: number): ReadonlyArray<string> => [
  ...hosts
    // A path is the directory of a socket on this machine.
    .filter((host) => !host.startsWith("/") && !isLoopback(host.replace(/^\[|\]$/g, "")) && !rehearsal.test(host))
    .map((host) => `the host ${host} is not local and its name does not contain staging, test or dev`),
  ...(otherJobs > 0 ? [`the service has ${otherJobs} unfinished jobs that are not part of this run`] : [])
]

const faultList = () =>
  Object.entries(faults)
    .map(([name, { about, needs }]) => {
      const extra = { api: "", database: " (needs DATABASE_URL)", pid: " (needs --pid)" }[needs]
      return `  ${name.padEnd(12)} ${about}${extra}`
    })
    .join("\n")

/** Reads --allow. Nothing is allowed unless it is named. */
const readAllowed = (names: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<string>, UsageError> => {
  const unknown = names.find((name) => faults[name] === undefined)
  if (unknown !== undefined) {
    return new UsageError({ message: `--allow has the unknown fault "${unknown}". Faults:\n${faultList()}` })
  }
  if (names.length > 0) return Effect.succeed([...new Set(names)])
  return new UsageError({
    message: `No fault is allowed, so nothing was done. Name the faults in --allow, separated by commas:\n${faultList()}`
  })
}

/** Reads --pid. Signalling 0 or a negative number would reach a whole process group. */
const readPids = (pid: string | undefined): Effect.Effect<ReadonlyArray<number>, UsageError> =>
  Effect.forEach(pid?.split(",") ?? [], (text) =>
    /^\s*[1-9]\d*\s*$/.test(text)
      ? Effect.succeed(Number(text))
      : new UsageError({ message: `--pid must be process ids separated by commas, got "${text}".` })
  )

const Session = Schema.Struct({ role: Schema.String })
const Count = Schema.Struct({ value: Schema.Number })

const Queues = Schema.Struct({
  queues: Schema.Array(
    Schema.Struct({
      name: Schema.String,
      paused: Schema.Boolean,
      declared: Schema.Boolean,
      counts: Schema.Struct({ pending: Count, retrying: Count, running: Count })
    })
  )
})
type QueueStates = typeof Queues.Type.queues

const read = <A, I>(client: ServiceClient.ServiceClient, path: string, schema: Schema.Schema<A, I>) =>
  client.ask("GET", path).pipe(
    Effect.flatMap(ServiceClient.decoded(path, schema)),
    Effect.mapError(({ message }) => new SomeFailed({ reasons: [`${client.url}${message}`] }))
  )

/** Only an administrator may inject faults. */
const requireAdmin = (client: ServiceClient.ServiceClient) =>
  Effect.gen(function* () {
    const { role } = yield* read(client, "/api/v1/session", Session)
    if (role === "admin") return
    return yield* new SomeFailed({
      reasons: [`NIGHTSHIFT_ADMIN_TOKEN is a token with the role ${role}. chaos needs the admin token of the service.`]
    })
  })

const otherJobs = (queues: QueueStates) =>
  queues.flatMap(({ counts }) => Object.values(counts)).reduce((sum, { value }) => sum + value, 0)

/** The run's jobs would never start, and the fault `pause` would resume a queue that an operator has paused. */
const requireOpen = (queues: QueueStates, name: string): Effect.Effect<void, SomeFailed> => {
  const queue = queues.find((each) => each.name === name)
  if (queue?.declared === true && !queue.paused) return Effect.void
  const reason =
    queue?.paused === true
      ? `The queue ${name} is paused. Nothing was done. Resume it, or choose another with --queue.`
      : `No process has ever served the queue ${name}. Nothing was done. Choose one that a process serves with --queue.`
  return new SomeFailed({ reasons: [reason] })
}

const textOf = ({ acknowledged, faults, run, violations }: ChaosRun.ChaosReport) => {
  const rows = faults.map(({ did, fault }) => [fault, did])
  return stack(
    table(["FAULT", "DONE"], rows, { wraps: true }),
    `\n${acknowledged} jobs acknowledged (run ${run}); ${violations.length} violations.`
  )
}

export const command = Command.make({
  about: "Inject the allowed faults into a staging deployment and check that no job is lost.",
  options: {
    url: Input.required(Input.url, "URL of a running process, as in https://jobs.staging.example.org."),
    allow: Input.withDefault(
      Input.names,
      [],
      `Faults that may be injected, separated by commas: ${Object.keys(faults).join(", ")}.`
    ),
    pid: Input.optional(Input.text, "Processes on this machine that may be signalled, separated by commas."),
    queue: Input.withDefault(Input.text, "default", "Queue for the marked jobs (default `default`)."),
    rate: Input.withDefault(Input.integer({ min: 1, max: 100 }), 10, "Jobs per second, 1 to 100 (default 10)."),
    each: Input.withDefault(
      Input.duration,
      Duration.seconds(5),
      "How long each fault lasts, and the pause after it (default 5s)."
    ),
    drain: Input.withDefault(
      Input.duration,
      Duration.minutes(2),
      "How long to wait at the end for all jobs (default 2m)."
    ),
    yes: Input.flag("Run even if the target looks like production."),
    json: CommonOptions.json
  },
  examples: {
    "nightshift chaos --url http://127.0.0.1:8787 --allow pause,cancel": "inject faults through the HTTP API",
    "nightshift chaos --url http://127.0.0.1:8787 --allow connections,locks --json":
      "inject faults through the database",
    "nightshift chaos --url http://127.0.0.1:8787 --allow sigkill --pid <pid>": "kill a process on this machine"
  },
  run: (given) =>
    Effect.gen(function* () {
      const allowed = yield* readAllowed(given.allow)
      const needs = new Set(allowed.map((name) => faults[name]?.needs))
      const pids = yield* readPids(given.pid)
      if (needs.has("pid") && pids.length === 0) {
        return yield* new UsageError({ message: "A signal is allowed, but no process is named. Add --pid." })
      }
      const { adminToken } = yield* ServerConfig
      if (Option.isNone(adminToken)) {
        return yield* new UsageError({
          message: "No token is set. Set NIGHTSHIFT_ADMIN_TOKEN to the service's admin token."
        })
      }
      const config = yield* DatabaseConfig
      const databaseUrl = needs.has("database") ? Option.getOrUndefined(config.url) : undefined
      if (needs.has("database") && databaseUrl === undefined) {
        return yield* new UsageError({
          message: "A database fault is allowed, but DATABASE_URL is not set. Set it to the database of the service."
        })
      }
      const client = ServiceClient.make(given.url.href.replace(/\/+$/, ""), adminToken.value)
      yield* requireAdmin(client)
      const hosts = [given.url.hostname, ...(databaseUrl === undefined ? [] : ChaosDatabase.hostsOf(databaseUrl))]
      const { queues } = yield* read(client, "/api/v1/queues", Queues)
      const signs = signsOfProduction([...new Set(hosts)], otherJobs(queues))
      if (signs.length > 0 && !given.yes) {
        return yield* new SomeFailed({
          reasons: [`The target looks like production: ${signs.join("; ")}. Nothing was done. Add --yes to run anyway.`]
        })
      }
      yield* requireOpen(queues, given.queue)
      const database = databaseUrl === undefined ? undefined : yield* ChaosDatabase.open(databaseUrl, config)
      const name = (yield* Random.nextIntBetween(0, 0xffffff)).toString(16).padStart(6, "0")
      const report = yield* ChaosRun.run(
        { client, queue: given.queue, pids, database },
        { allowed, jobsPerSecond: given.rate, each: given.each, drain: given.drain },
        name,
        (fault, did) => Effect.logInfo(`${fault}: ${did}`)
      )
      yield* print(given.json, { ok: report.violations.length === 0, ...report }, textOf(report))
      if (report.violations.length > 0) return yield* new SomeFailed({ reasons: report.violations })
    }).pipe(
      Effect.scoped,
      Effect.provide(ServerConfig.layer),
      Effect.provide(DatabaseConfig.layer),
      Settings.configured({})
    )
})
