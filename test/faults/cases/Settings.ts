import { randomBytes } from "node:crypto"
import { Effect, Redacted, type Scope } from "effect"
import * as TestDatabase from "../../support/TestDatabase.js"
import * as Deployment from "../Deployment.js"
import type { FaultCase } from "../FaultCase.js"
import { cutConnections, first, nothingLost, ofGroup, prove } from "../Steps.js"
import { type Story, survive } from "../Survival.js"

const longestSchema = `_${"x9".repeat(27)}y`

const nameOf = (url: string) => decodeURIComponent(new URL(url).pathname.slice(1))

/** What must hold with any setting: instants in the API are right, and text survives. */
const readsRight = (deployment: Deployment.Deployment) =>
  Effect.gen(function* () {
    const pod = yield* first(deployment)
    const text = "naïve café"
    const [id] = yield* deployment.enqueue([{ kind: "work", payload: { ms: 1, text } }])
    const { body } = yield* Deployment.until("the job is done", pod.request("GET", `/api/v1/jobs/${id}`), (answer) =>
      answer.body.includes('"state":"done"')
    )
    const job = JSON.parse(body) as { createdAt: string; finishedAt: string; payload: { text: string } }
    for (const instant of [job.createdAt, job.finishedAt]) {
      if (Math.abs(Date.parse(instant) - Date.now()) > 60_000) {
        return yield* Effect.fail(new Error(`the API shows ${instant} at ${new Date().toISOString()}`))
      }
    }
    if (job.payload.text !== text) return yield* Effect.fail(new Error(`the payload came back as ${job.payload.text}`))
    return []
  })

/** One pod under load on a database with these settings. */
const withSettings = (settings: ReadonlyArray<string>, more: Partial<Story> = {}) =>
  survive({
    pods: 1,
    prepare: (deployment) =>
      Effect.forEach(settings, (setting) =>
        deployment.query(`alter database "${nameOf(deployment.databaseUrl)}" set ${setting}`)
      ),
    fault: (deployment) =>
      Effect.gen(function* () {
        const [row] = yield* deployment.query<{ count: number }>(
          `select cardinality(setconfig) as count from pg_db_role_setting
           where setrole = 0 and setdatabase = (select oid from pg_database where datname = current_database())`
        )
        yield* prove("the database has the settings", row?.count === settings.length)
        yield* Effect.sleep("2 seconds")
        return []
      }),
    afterwards: readsRight,
    ...more
  })

const setting = (name: string, ...settings: ReadonlyArray<string>): Omit<FaultCase, "group"> => ({
  name,
  promise: `${nothingLost}; instants and text come back unchanged`,
  recoveryLimit: [],
  operatorSees: "Nothing; /readyz is 200",
  run: withSettings(settings)
})

/** Connects as the owner of the run's server, to another database. */
const administer = (like: string, database: string, statement: string) => {
  const url = new URL(like)
  url.pathname = `/${encodeURIComponent(database)}`
  return Deployment.query(url.href)(statement)
}

/** A role without any attribute, dropped with the Scope; returns the URL for it. */
const plainRole = (databaseUrl: string) =>
  Effect.gen(function* () {
    const role = `clerk_${randomBytes(4).toString("hex")}`
    const ask = Deployment.query(databaseUrl)
    yield* Effect.acquireRelease(ask(`create role ${role} login password 'p@ss:w/rd?#%'`), () =>
      Effect.ignore(Effect.zipRight(ask(`drop owned by ${role}`), ask(`drop role ${role}`)))
    )
    const url = new URL(databaseUrl)
    url.username = role
    url.password = encodeURIComponent("p@ss:w/rd?#%")
    return { role, url: url.href }
  })

/** A database with another encoding or name, dropped with the Scope. */
const otherDatabase = (name: string, options: string): Effect.Effect<Redacted.Redacted, unknown, Scope.Scope> =>
  Effect.gen(function* () {
    const near = Redacted.value(yield* TestDatabase.empty)
    const unique = `${name} ${randomBytes(4).toString("hex")}`
    yield* Effect.acquireRelease(
      administer(near, "postgres", `create database "${unique}" template template0 ${options}`),
      () => Effect.ignore(administer(near, "postgres", `drop database "${unique}" with (force)`))
    )
    const url = new URL(near)
    url.pathname = `/${encodeURIComponent(unique)}`
    return Redacted.make(url.href)
  })

/** Enqueues a text that the database cannot store, and expects a clear refusal. */
const refusesText = (deployment: Deployment.Deployment, text: string) =>
  Effect.gen(function* () {
    const pod = yield* first(deployment)
    const answer = yield* pod.request("POST", "/api/v1/jobs", { kind: "work", payload: { ms: 1, text } })
    if (answer.status < 400 || answer.status >= 500) {
      return yield* Effect.fail(new Error(`enqueue of an unstorable text: ${answer.status} ${answer.body}`))
    }
    return [`enqueue of "${text}": ${answer.status} ${answer.body.slice(0, 160)}`]
  })

/** Starts a pod that must refuse, and returns its last words. */
const refusesStart = (deployment: Deployment.Deployment, pattern: RegExp, env: Readonly<Record<string, string>> = {}) =>
  Effect.gen(function* () {
    const { code, stderr } = yield* deployment.serveToEnd(env)
    const found = pattern.exec(stderr)
    if (code === 0 || found === null) return yield* Effect.fail(new Error(`exit ${code}: ${stderr.slice(-500)}`))
    return `exit code ${code}: ${found[0].slice(0, 200)}`
  })

export const cases: ReadonlyArray<FaultCase> = ofGroup("settings", [
  {
    name: "role that owns nothing: rights on the tables of an owner's schema",
    promise: nothingLost,
    recoveryLimit: [],
    operatorSees: "Nothing; /readyz is 200",
    run: survive({
      pods: 1,
      throughUrl: (database) =>
        Effect.gen(function* () {
          const url = Redacted.value(database)
          const clerk = yield* plainRole(url)
          const ask = Deployment.query(url)
          yield* ask(`grant usage on schema nightshift to ${clerk.role}`)
          yield* ask(`grant select, insert, update, delete on all tables in schema nightshift to ${clerk.role}`)
          yield* ask(`grant usage on all sequences in schema nightshift to ${clerk.role}`)
          return clerk.url
        }),
      fault: () => Effect.as(Effect.sleep("2 seconds"), []),
      afterwards: readsRight
    })
  },
  {
    name: "role without superuser that creates the schema itself",
    promise: nothingLost,
    recoveryLimit: [],
    operatorSees: "The log names the applied migration",
    run: survive({
      pods: 1,
      database: TestDatabase.empty,
      throughUrl: (database) =>
        Effect.gen(function* () {
          const url = Redacted.value(database)
          const clerk = yield* plainRole(url)
          yield* Deployment.query(url)(`grant create on database "${nameOf(url)}" to ${clerk.role}`)
          return clerk.url
        }),
      fault: (deployment) =>
        Effect.map(
          Effect.flatMap(first(deployment), (pod) => pod.logged(/applied migration \w+/)),
          (saw) => [saw]
        ),
      afterwards: readsRight
    })
  },
  {
    name: "role without CREATE on an empty database",
    promise: "The process refuses to start and says which grant is missing; after the grant everything works",
    recoveryLimit: [],
    operatorSees: "Exit code 1 with the GRANT statement to run",
    run: Effect.gen(function* () {
      const database = yield* TestDatabase.empty
      const url = Redacted.value(database)
      const clerk = yield* plainRole(url)
      return yield* survive({
        pods: 1,
        database: Effect.succeed(database),
        throughUrl: () => Effect.succeed(clerk.url),
        prepare: (deployment) =>
          Effect.gen(function* () {
            yield* refusesStart(deployment, /grant create on database/)
            yield* deployment.query(`grant create on database "${nameOf(url)}" to ${clerk.role}`)
          }),
        fault: () =>
          Effect.succeed(['exit code 1: Run "grant create on database …", or let an owner run nightshift migrate.'])
      })
    })
  },
  {
    name: "schema with the longest name, 56 characters",
    promise: nothingLost,
    recoveryLimit: [],
    operatorSees: "Nothing; /readyz is 200",
    run: survive({
      pods: 2,
      database: TestDatabase.empty,
      schema: longestSchema,
      env: { DATABASE_SCHEMA: longestSchema },
      fault: () => Effect.as(Effect.sleep("2 seconds"), []),
      afterwards: readsRight
    })
  },
  {
    name: "schema name that needs quotes, is too long or is a reserved word",
    promise: "The process refuses to start and names the rule; with a valid name everything works",
    recoveryLimit: [],
    operatorSees: "Exit code 2 with the rule for names",
    run: survive({
      pods: 1,
      fault: (deployment) =>
        Effect.forEach(["Night", 'night"shift', "order", `${longestSchema}x`], (name) =>
          refusesStart(deployment, /DATABASE_SCHEMA[^\n]+/, { DATABASE_SCHEMA: name })
        )
    })
  },
  setting(
    "search_path without pg_catalog first, and tables of the same names in public",
    `search_path to '"odd, path"', public, pg_catalog`
  ),
  setting("TimeZone Asia/Kathmandu", "timezone to 'Asia/Kathmandu'"),
  setting(
    "TimeZone America/New_York and DateStyle SQL, DMY",
    "timezone to 'America/New_York'",
    "datestyle to 'SQL, DMY'"
  ),
  setting(
    "DateStyle German and IntervalStyle sql_standard",
    "datestyle to 'German'",
    "intervalstyle to 'sql_standard'"
  ),
  setting(
    "IntervalStyle iso_8601, bytea_output escape, array_nulls off",
    "intervalstyle to 'iso_8601'",
    "bytea_output to 'escape'",
    "array_nulls to off"
  ),
  setting("extra_float_digits -15: numbers as text lose digits", "extra_float_digits to -15"),
  setting(
    "standard_conforming_strings off and quote_all_identifiers on",
    "standard_conforming_strings to off",
    "quote_all_identifiers to on"
  ),
  setting(
    "default isolation repeatable read, default deferrable",
    "default_transaction_isolation to 'repeatable read'",
    "default_transaction_deferrable to on"
  ),
  setting("lock_timeout of 50 ms", "lock_timeout to '50ms'"),
  setting(
    "planner settings: no index scans, generic plans only",
    "enable_indexscan to off",
    "enable_bitmapscan to off",
    "plan_cache_mode to 'force_generic_plan'"
  ),
  setting("client_encoding LATIN1 set for the database", "client_encoding to 'LATIN1'"),
  {
    name: "database with the encoding LATIN1",
    promise: `${nothingLost}; a text that the encoding cannot store is refused with an error that names it`,
    recoveryLimit: [],
    operatorSees: "The refused request answers 4xx",
    run: survive({
      pods: 1,
      database: otherDatabase("latin", "encoding 'LATIN1' locale 'C'"),
      fault: (deployment) => refusesText(deployment, "東京"),
      afterwards: readsRight
    })
  },
  {
    name: "database with the encoding SQL_ASCII",
    promise: nothingLost,
    recoveryLimit: [],
    operatorSees: "Nothing; /readyz is 200",
    run: survive({
      pods: 1,
      database: otherDatabase("ascii", "encoding 'SQL_ASCII' locale 'C'"),
      fault: () => Effect.as(Effect.sleep("2 seconds"), []),
      afterwards: readsRight
    })
  },
  {
    name: "database and password with spaces, quotes and non-ASCII letters",
    promise: nothingLost,
    recoveryLimit: [],
    operatorSees: "Nothing; /readyz is 200",
    run: survive({
      pods: 1,
      database: otherDatabase("my jobs é's", "encoding 'UTF8' locale 'C'"),
      throughUrl: (database) =>
        Effect.gen(function* () {
          const url = Redacted.value(database)
          const clerk = yield* plainRole(url)
          yield* Deployment.query(url)(`grant create on database "${nameOf(url)}" to ${clerk.role}`)
          return clerk.url
        }),
      fault: () => Effect.as(Effect.sleep("2 seconds"), []),
      afterwards: readsRight
    })
  },
  {
    name: "settings of the database changed while processes run",
    promise: nothingLost,
    recoveryLimit: [],
    operatorSees: "Nothing; /readyz stays or returns to 200",
    run: withSettings([], {
      fault: (deployment) =>
        Effect.gen(function* () {
          const name = nameOf(deployment.databaseUrl)
          yield* deployment.query(`alter database "${name}" set timezone to 'Pacific/Apia'`)
          yield* deployment.query(`alter database "${name}" set datestyle to 'Postgres, DMY'`)
          yield* cutConnections(deployment)
          yield* Effect.sleep("2 seconds")
          return [yield* (yield* first(deployment)).untilReadyz(200)]
        })
    })
  }
])
