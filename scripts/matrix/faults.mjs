// The set-ups of the matrix that are rows of docs/operate/faults.md.
import { matrixFault } from "./faults-page.mjs"

const nothingLost = "No acknowledged job is lost, and transactional effects are committed exactly once"
const crash = "`QUEUE_STALE_AFTER` + `QUEUE_REAPER_INTERVAL` (1m15s)"
const connections =
  "`DATABASE_STATEMENT_TIMEOUT` + `DATABASE_CONNECT_TIMEOUT` + `QUEUE_STALE_AFTER` + `QUEUE_REAPER_INTERVAL` (1m50s)"

const onVersion = (major) => ({
  group: "versions",
  fault: `PostgreSQL ${major}: the laws of all services, and processes killed with -9`,
  promise: `The tests of \`test/laws\` pass. ${nothingLost}`,
  limit: crash,
  sees: "No difference between versions"
})

const faults = {
  "postgres-14": onVersion(14),
  "postgres-15": onVersion(15),
  "postgres-16": onVersion(16),
  "postgres-17": onVersion(17),
  "postgres-18": onVersion(18),
  pgbouncer: {
    group: "middle",
    fault: "PgBouncer in transaction mode, two processes killed with -9",
    promise: `The tests of \`test/laws\` pass. ${nothingLost}, with and without \`DATABASE_LISTEN_URL\``,
    limit: crash,
    sees: "The doctor's check `notifications` warns until `DATABASE_LISTEN_URL` is set"
  },
  haproxy: {
    group: "middle",
    fault: "HAProxy: planned switch-over to a standby",
    promise: nothingLost,
    limit: connections,
    sees: "/readyz is 503 until the standby is promoted"
  },
  "failover-async": {
    group: "middle",
    fault: "primary crashes, asynchronous standby promoted",
    promise:
      "Only jobs acknowledged after the standby fell behind are lost. Transactional effects are committed exactly once",
    limit: connections,
    sees: "/readyz is 503 until the standby is promoted"
  },
  "failover-sync": {
    group: "middle",
    fault: "primary crashes, synchronous standby promoted",
    promise: nothingLost,
    limit: connections,
    sees: "/readyz is 503 until the standby is promoted"
  }
}

/** The row of a set-up, or undefined if it is not a fault. `recoveryMillis` is the longest pause of acknowledged enqueues. */
export const rowOf = (setup, { held, on, recoveryMillis, saw }) => {
  const found = faults[setup]
  if (found === undefined) return undefined
  return {
    ...found,
    fault: matrixFault(found.fault, setup),
    held,
    recovery: recoveryMillis === undefined ? "" : `${(recoveryMillis / 1000).toFixed(1)} s`,
    sees: `${found.sees}. Seen: ${on === undefined ? saw : `${on}; ${saw}`}`
  }
}
