import { Duration, Effect } from "effect"
import * as DurationText from "../../core/DurationText.js"
import { MetricsConfig } from "../../crew/MetricsConfig.js"
import { DatabaseHealth, type Health, type VacuumBlocker } from "../../measures/DatabaseHealth.js"
import { type Check, ok, warn } from "./Check.js"

/** Warn above this number of dead rows if they also outnumber the live rows. */
const manyDeadTuples = 100_000
/** Transactions a replication slot may lag behind before it is reported. */
const manyTransactions = 1_000_000

const shown = (seconds: number) => DurationText.format(Duration.seconds(Math.round(seconds)))

const described = ({ application, name, state, user, what }: VacuumBlocker) => {
  const more = [application, user === undefined ? undefined : `user ${user}`, state].filter(
    (part) => part !== undefined
  )
  return `${what} ${name}${more.length === 0 ? "" : ` (${more.join(", ")})`}`
}

const remedy = ({ name, what }: VacuumBlocker) => {
  switch (what) {
    case "session":
      return `End it with select pg_terminate_backend(${name}), and set idle_in_transaction_session_timeout.`
    case "prepared transaction":
      return `Run COMMIT PREPARED or ROLLBACK PREPARED '${name}'.`
    case "replication slot":
      return `Restart its consumer, or drop the slot: select pg_drop_replication_slot('${name}').`
  }
}

const ofBlocker = (blocker: VacuumBlocker, limit: number) => {
  const { seconds, transactions } = blocker
  const isOld = seconds === undefined ? transactions > manyTransactions : seconds > limit
  if (!isOld) return []
  const howLong = seconds === undefined ? `over ${transactions} transactions` : `for ${shown(seconds)}`
  return [warn(`${described(blocker)} has blocked vacuum ${howLong}.`, remedy(blocker))]
}

const ofTuples = ({ jobDeadTuples, jobLiveTuples }: Health) =>
  jobDeadTuples > manyDeadTuples && jobDeadTuples > jobLiveTuples
    ? [
        warn(
          `The job table has ${jobDeadTuples} dead rows and ${jobLiveTuples} live rows.`,
          "Check that autovacuum is enabled and not blocked. VACUUM nightshift.job removes them immediately."
        )
      ]
    : []

/** Reports what blocks vacuum. Dead rows that are not removed slow down every claim. */
export const check: Check = {
  name: "vacuum",
  look: Effect.gen(function* () {
    const health = yield* Effect.flatMap(DatabaseHealth, ({ look }) => look)
    const limit = Duration.toSeconds((yield* MetricsConfig).oldTransaction)
    const found = [...health.blockers.flatMap((blocker) => ofBlocker(blocker, limit)), ...ofTuples(health)]
    if (found.length > 0) return found
    const oldest = health.oldestTransactionSeconds
    const open = oldest === 0 ? "No transaction is open" : `The oldest open transaction is ${shown(oldest)} old`
    return [ok(`${open}; the job table has ${health.jobDeadTuples} dead rows.`)]
  })
}
