import { Cause, Effect, Layer, Predicate } from "effect"
import * as ClusterPg from "../../cluster/ClusterPg.js"
import { Database } from "../../database/Database.js"
import * as DatabaseClock from "../../database/DatabaseClock.js"
import { DatabaseConfig } from "../../database/DatabaseConfig.js"
import { address, DatabaseUrl } from "../../database/DatabaseUrl.js"
import * as Listener from "../../database/Listener.js"
import { Migrations } from "../../database/Migrations.js"
import * as HistoryPg from "../../history/HistoryPg.js"
import { MetricsConfig } from "../../history/MetricsConfig.js"
import * as QueuePg from "../../queue/QueuePg.js"
import * as Seal from "../../seal/Seal.js"
import * as StoragePg from "../../uploads/StoragePg.js"
import { UploadsConfig } from "../../uploads/UploadsConfig.js"
import { ClusterConfig } from "../../worker/ClusterConfig.js"
import * as DatabaseChoice from "../DatabaseChoice.js"
import { type Check, type Finding, fail, ok, type Services, warn } from "./Check.js"
import { checks } from "./Checks.js"
import * as DatabaseChecks from "./DatabaseChecks.js"
import { sealedValues } from "./SealCheck.js"

// Runs the checks in order of dependency: database, schema, writes and notifications, clock, then all others. A check
// that cannot run is reported as failed.

/** Newest PostgreSQL major version this release is tested with. */
const newestTested = 18

const sentence = (cause: Cause.Cause<unknown>): string => {
  const error = Cause.squash(cause)
  return Predicate.hasProperty(error, "message") ? String(error.message) : String(error)
}

/** Reports an error or a timeout of a check as a failed finding. */
const attempt = <E, R>(check: string, run: Effect.Effect<ReadonlyArray<Finding>, E, R>) =>
  run.pipe(
    Effect.timeout("30 seconds"),
    Effect.catchAllCause((cause) => {
      const found = fail(
        `This check could not run: ${sentence(cause)}`,
        "Fix the problems above, then run `nightshift doctor` again."
      )
      return Effect.succeed([{ check, ...found }])
    })
  )

/** Returns whether any finding has status `fail`. */
export const hasFailed = (findings: ReadonlyArray<Finding>) => findings.some(({ status }) => status === "fail")

const runCheck = ({ run, name }: Check) =>
  attempt(
    name,
    Effect.map(run, (found) => found.map((each): Finding => ({ check: name, ...each })))
  )

const ports: Layer.Layer<
  Exclude<Services, Database | DatabaseUrl | DatabaseConfig | ClusterConfig | MetricsConfig>,
  never,
  Database
> = Layer.mergeAll(
  QueuePg.layer,
  ClusterPg.layer,
  HistoryPg.layer,
  // Reading file counts uses no setting.
  Layer.provide(StoragePg.layer, UploadsConfig.layerDefault)
).pipe(Layer.provide(Listener.layerPolling))

const onSchema = (more: ReadonlyArray<Check>) =>
  Effect.map(Effect.forEach([...checks, ...more], runCheck), (found): ReadonlyArray<Finding> => found.flat()).pipe(
    Effect.provide(ports)
  )

const clockUnusable = (cause: Cause.Cause<unknown>): ReadonlyArray<Finding> => [
  { check: "clock", ...fail(sentence(cause), "Move this process closer to the database, or raise NIGHTSHIFT_LEASE.") }
]

/** The checks report their own errors; only building the database clock can fail here. */
const onTime = (more: ReadonlyArray<Check>) =>
  Effect.zipWith(
    DatabaseChecks.clock,
    onSchema(more),
    (clock, rest): ReadonlyArray<Finding> => [...clock, ...rest]
  ).pipe(
    Effect.provide(DatabaseClock.layer),
    Effect.catchAllCause((cause) => Effect.succeed(clockUnusable(cause)))
  )

const versionFinding = (version: number, where: string): Finding => {
  const major = Math.floor(version / 10_000)
  const server = `PostgreSQL ${major}.${version % 10_000} at ${where}`
  const fix = `It will probably work. This release is tested with PostgreSQL up to ${newestTested}.`
  return {
    check: "database",
    ...(major <= newestTested ? ok(`${server}.`) : warn(`${server} is newer than the tested versions.`, fix))
  }
}

const onDatabase = (
  more: ReadonlyArray<Check>
): Effect.Effect<
  ReadonlyArray<Finding>,
  never,
  Database | DatabaseUrl | DatabaseConfig | Migrations | ClusterConfig | MetricsConfig
> =>
  Effect.gen(function* () {
    const { serverVersion } = yield* Database
    const first = versionFinding(serverVersion, address(yield* DatabaseUrl))
    const schema = yield* attempt("schema", DatabaseChecks.schema)
    if (hasFailed(schema)) return [first, ...schema]
    const writes = yield* DatabaseChecks.writes
    return [first, ...schema, ...writes, ...(yield* DatabaseChecks.notifications), ...(yield* onTime(more))]
  })

const databaseUnusable = (cause: Cause.Cause<unknown>): ReadonlyArray<Finding> => [
  {
    check: "database",
    ...fail(
      sentence(cause),
      "Fix the connection, then run `nightshift doctor` again. All other checks need the database."
    )
  }
]

const database = Migrations.layer.pipe(
  Layer.provideMerge(Database.layer),
  Layer.provideMerge(DatabaseChoice.layerForCommand),
  Layer.provideMerge(Layer.mergeAll(DatabaseConfig.layer, ClusterConfig.layer, MetricsConfig.layer))
)

/** Runs all checks that need a database, then some more. */
export const ofDatabase = (more: ReadonlyArray<Check> = []): Effect.Effect<ReadonlyArray<Finding>> =>
  // Read here: the services of the checks bring settings of their own.
  Effect.flatMap(Seal.configured, (codec) => onDatabase([...more, sealedValues(codec)])).pipe(
    Effect.provide(database),
    Effect.catchAllCause((cause) => Effect.succeed(databaseUnusable(cause)))
  )
