import { Duration, Effect, Either, Schedule, type Scope } from "effect"
import { isRejected, RequestFailed, type ServiceClient } from "../ServiceClient.js"
import type { ChaosDatabase, ChaosDatabaseError } from "./ChaosDatabase.js"
import type { Entry } from "./ChaosLedger.js"

/** What a fault may touch. */
export interface Target {
  readonly client: ServiceClient
  readonly queue: string
  readonly pids: ReadonlyArray<number>
  readonly database: ChaosDatabase | undefined
  readonly entries: ReadonlyMap<string, Entry>
}

type Injected = Effect.Effect<string, RequestFailed | ChaosDatabaseError | SignalFailed, Scope.Scope>

/** A fault that the caller can allow. */
export interface Fault {
  readonly about: string
  readonly needs: "api" | "database" | "pid"
  /** Injects it for about this long, and returns what was done. */
  readonly inject: (target: Target, lasting: Duration.Duration) => Injected
}

/** A process could not be signalled. */
export class SignalFailed extends Error {
  readonly _tag = "SignalFailed"
}

const signal = (pid: number, name: NodeJS.Signals) =>
  Effect.try({
    try: () => void process.kill(pid, name),
    catch: (error) =>
      new SignalFailed(`Cannot send ${name} to process ${pid}: ${error instanceof Error ? error.message : error}.`)
  })

const toAll = (name: NodeJS.Signals) => (target: Target) =>
  Effect.as(
    Effect.forEach(target.pids, (pid) => signal(pid, name), { discard: true }),
    `sent ${name} to ${target.pids.length} processes`
  )

const database = (
  run: (database: ChaosDatabase, target: Target, lasting: Duration.Duration) => Injected
): Fault["inject"] =>
  function (target, lasting) {
    return target.database === undefined
      ? Effect.dieMessage("the fault needs a database")
      : run(target.database, target, lasting)
  }

const ownJobs = (target: Target) => [...target.entries.values()].filter(({ acknowledged }) => acknowledged)

/** At most this many of the run's own jobs are cancelled, or locked, at once. */
const maxJobsAtOnce = 20

/** An unanswered request is repeated on the next connection. */
const requestTimeout = "5 seconds"

/** Sends a request with a time limit, which also holds where the caller cannot be interrupted. */
export const ask = ({ client }: Target, ...request: Parameters<ServiceClient["ask"]>) =>
  Effect.timeoutFail(Effect.interruptible(client.ask(...request)), {
    duration: requestTimeout,
    onTimeout: () => new RequestFailed({ path: request[1], reason: `no answer in ${requestTimeout}` })
  })

const setPaused = (target: Target, paused: boolean) =>
  ask(target, "PATCH", `/api/v1/queues/${encodeURIComponent(target.queue)}`, {
    body: { paused },
    reason: "nightshift chaos"
  })

/** The faults by the name that `--allow` takes. */
export const faults: Readonly<Record<string, Fault>> = {
  connections: {
    about: "terminates the processes' database connections, once a second",
    needs: "database",
    inject: database((db, _, lasting) => {
      const rounds = Math.max(1, Math.floor(Duration.toSeconds(lasting)))
      const cut = Effect.zipLeft(db.terminateConnections, Effect.sleep("1 second"))
      return Effect.map(Effect.replicateEffect(cut, rounds), (counts) => {
        return `terminated ${counts.reduce((sum, count) => sum + count, 0)} connections`
      })
    })
  },
  locks: {
    about: "blocks all writes to the job table for at most 3 seconds",
    needs: "database",
    inject: database((db, _, lasting) => {
      const held = Duration.min(lasting, Duration.seconds(3))
      return Effect.as(db.lockJobs(held), `locked the job table for ${Duration.format(held)}`)
    })
  },
  transaction: {
    about: `holds row locks on up to ${maxJobsAtOnce} of the run's own jobs in an open transaction`,
    needs: "database",
    inject: database((db, target, lasting) => {
      const ids = ownJobs(target)
        .slice(-maxJobsAtOnce)
        .map(({ id }) => id)
      return Effect.as(
        db.lockRows(ids, lasting),
        `held row locks on ${ids.length} jobs for ${Duration.format(lasting)}`
      )
    })
  },
  pause: {
    about: "pauses the queue and resumes it",
    needs: "api",
    inject: (target, lasting) =>
      Effect.acquireUseRelease(
        Effect.either(setPaused(target, true)),
        (paused) =>
          Effect.as(Effect.zipRight(paused, Effect.sleep(lasting)), `paused the queue for ${Duration.format(lasting)}`),
        // The queue must not stay paused, whatever happens to this command, the service or the reply of the pause.
        (paused) =>
          Either.isLeft(paused) && isRejected(paused.left)
            ? Effect.void
            : Effect.ignore(
                Effect.retry(setPaused(target, false), { times: 20, schedule: Schedule.spaced("1 second") })
              )
      )
  },
  cancel: {
    about: `cancels up to ${maxJobsAtOnce} of the run's own jobs and requeues half of those`,
    needs: "api",
    inject: (target) =>
      Effect.gen(function* () {
        let cancelled = 0
        let requeued = 0
        for (const entry of ownJobs(target).slice(-maxJobsAtOnce)) {
          const path = `/api/v1/jobs/${entry.id}`
          // Mark it first: the request may succeed and its reply be lost.
          entry.cancelled = true
          if ((yield* Effect.either(target.client.ask("POST", `${path}/cancel`)))._tag === "Left") continue
          cancelled += 1
          if (cancelled % 2 === 0) continue
          entry.requeued = true
          if ((yield* Effect.either(target.client.ask("POST", `${path}/requeue`)))._tag === "Right") requeued += 1
        }
        return `cancelled ${cancelled} jobs and requeued ${requeued}`
      })
  },
  sigterm: { about: "sends SIGTERM to every --pid", needs: "pid", inject: toAll("SIGTERM") },
  sigkill: { about: "sends SIGKILL to every --pid", needs: "pid", inject: toAll("SIGKILL") },
  sigstop: {
    about: "stops every --pid with SIGSTOP and resumes it",
    needs: "pid",
    inject: (target, lasting) =>
      Effect.acquireUseRelease(
        // Some may be stopped even if this fails.
        Effect.either(toAll("SIGSTOP")(target)),
        (stopped) =>
          Effect.as(
            Effect.zipRight(stopped, Effect.sleep(lasting)),
            `stopped ${target.pids.length} processes for ${Duration.format(lasting)}`
          ),
        () => Effect.forEach(target.pids, (pid) => Effect.ignore(signal(pid, "SIGCONT")), { discard: true })
      )
  }
}
