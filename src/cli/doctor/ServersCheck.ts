import { Clock, Duration, Effect, Redacted } from "effect"
import { Pods, type StoredPod } from "../../cluster/Pods.js"
import { Database } from "../../database/Database.js"
import { DatabaseConfig } from "../../database/DatabaseConfig.js"
import { mapErrors } from "../../database/DatabaseError.js"
import { DatabaseUrl, serversOf } from "../../database/DatabaseUrl.js"
import * as ServerIdentity from "../../database/ServerIdentity.js"
import * as Age from "../Age.js"
import { type Check, fail, ok, warn } from "./Check.js"

/** Pods with a heartbeat this recent may still be running, connected to a server whose writes do not reach this one. */
const recently = Duration.minutes(10)
const mostNamed = 5

/** Reports more than one writable server in the URL, as after a failover that did not stop the old primary. */
export const ofNamed = (servers: ReadonlyArray<ServerIdentity.NamedServer>) => {
  const writers = servers.flatMap(({ address, server, takesWrites }) =>
    takesWrites && server !== undefined ? [{ address, server }] : []
  )
  const different = writers.filter(
    ({ server }, index) => !writers.slice(0, index).some((other) => ServerIdentity.isSame(other.server, server))
  )
  if (different.length < 2) return []
  const list = different.map(({ address, server }) => `${address} (${ServerIdentity.show(server)})`).join(", ")
  return [
    fail(
      `${different.length} servers in DATABASE_URL accept writes: ${list}. Jobs stored on one of them are missing on the other.`,
      "Stop all but the primary, or remove their addresses, and restart the pods that were connected to them. Then enqueue the jobs that exist only on the old primary again."
    )
  ]
}

/** Reports pods whose last heartbeat was written by another server: they may still be connected to it. */
export const ofPods = (here: string, pods: ReadonlyArray<StoredPod>, now: number) => {
  const elsewhere = pods.filter(({ server }) => server !== undefined && !ServerIdentity.isSame(server, here))
  if (elsewhere.length === 0) return []
  const list = elsewhere
    .slice(0, mostNamed)
    .map(
      ({ heartbeatAt, host, id, label, server = "" }) =>
        `${label ?? id} (${host.name}, pid ${host.pid}) on ${ServerIdentity.show(server)}, ${Age.describe(heartbeatAt, now)}`
    )
    .join("; ")
  const more = elsewhere.length > mostNamed ? `; and ${elsewhere.length - mostNamed} more` : ""
  return [
    warn(
      `This address leads to ${ServerIdentity.show(here)}, but ${elsewhere.length} pods sent their last heartbeat to another server: ${list}${more}.`,
      "If these pods are still running, they write to a server that is no longer the primary: stop that server and restart the pods. If PostgreSQL was restarted and they have exited, no action is needed."
    )
  ]
}

/** Checks that all pods use the PostgreSQL server that this address leads to. */
export const check: Check = {
  name: "servers",
  look: Effect.gen(function* () {
    const { sql } = yield* Database
    const { urls } = serversOf(Redacted.value(yield* DatabaseUrl))
    const config = yield* DatabaseConfig
    const rows = yield* mapErrors(sql.unsafe<{ server: string }>(`select ${ServerIdentity.expression} as server`))
    const here = rows[0]?.server ?? ""
    const pods = yield* Effect.flatMap(Pods, ({ live }) => live(recently))
    const named =
      urls.length === 1
        ? []
        : yield* Effect.forEach(urls, (url) => ServerIdentity.ask(url, config), { concurrency: "unbounded" })
    const found = [...ofNamed(named), ...ofPods(here, pods, yield* Clock.currentTimeMillis)]
    return found.length === 0
      ? [ok(`Every pod uses the server that this address leads to: ${ServerIdentity.show(here)}.`)]
      : found
  })
}
