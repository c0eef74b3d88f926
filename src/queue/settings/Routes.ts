import { Context, Effect, Schema } from "effect"
import { plainNames } from "../../core/Storable.js"
import type { FollowUp } from "../../core/StoredJob.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { isQueueName, isUnstorable, type NewJob } from "../NewJob.js"
import type { DeclaredRoutes } from "./QueueLimits.js"

/** Sends kinds with this prefix that name no queue to a queue. */
export interface Route {
  readonly prefix: string
  readonly queue: string
}

export type { DeclaredRoutes }

/** A declared route has an invalid prefix or queue name. */
export class InvalidRoute extends Schema.TaggedError<InvalidRoute>()("InvalidRoute", {
  /** Start of the kinds' names, as it was declared. */
  prefix: Schema.String,
  /** What is wrong with the route, as the end of a sentence. */
  reason: Schema.String
}) {
  override get message(): string {
    return `The route for prefix ${JSON.stringify(this.prefix.slice(0, 80))} ${this.reason}.`
  }
}

export const faultOf = (declared: DeclaredRoutes): InvalidRoute | undefined => {
  for (const [prefix, queue] of Object.entries(declared)) {
    if (prefix === "" || prefix.length > 128 || isUnstorable(prefix)) {
      return new InvalidRoute({ prefix, reason: "is invalid: a prefix has 1 to 128 characters and no NUL" })
    }
    if (queue !== null && !isQueueName(queue)) {
      const reason = `points to ${JSON.stringify(queue)}, which is not a queue name: use ${plainNames}`
      return new InvalidRoute({ prefix, reason })
    }
  }
  return undefined
}

/** Maps a kind to its queue; undefined if no prefix matches. */
export type Decide = (kind: string) => string | undefined

/** The longest matching prefix wins. */
export const decide = (routes: ReadonlyArray<Route>): Decide => {
  const longestFirst = routes.toSorted((a, b) => b.prefix.length - a.prefix.length)
  return (kind) => longestFirst.find(({ prefix }) => kind.startsWith(prefix))?.queue
}

/** Routes for jobs that name no queue, shared by the cluster. */
export class Routes extends Context.Tag("nightshift/queue/Routes")<
  Routes,
  {
    /** Registers routes. The latest registration of a prefix wins, whichever pod made it; `null` removes it. */
    readonly register: (declared: DeclaredRoutes) => Effect.Effect<void, InvalidRoute | DatabaseError>

    /** The routes of all processes, by prefix. */
    readonly all: Effect.Effect<ReadonlyArray<Route>, DatabaseError>

    /** The current routing function. Changes by other processes may take a second to appear. */
    readonly current: Effect.Effect<Decide, DatabaseError>

    /** The same if no query is needed, otherwise undefined. A plain function, for webhooks. */
    readonly cached: () => Decide | undefined
  }
>() {}

/** Whether the queue of the job or of its follow-up depends on the routes. */
export const isRouted = (job: NewJob): boolean =>
  job.routed === true || (typeof job.onDead === "object" && job.onDead.routed === true)

/** The job with its queue and that of its follow-up decided. */
export const routed = (job: NewJob, queueOf: Decide): NewJob => {
  const queue = (job.routed === true ? queueOf(job.kind) : undefined) ?? job.queue
  const onDead = typeof job.onDead === "object" ? routedFollowUp(job.onDead, queueOf) : job.onDead
  return { ...job, queue, routed: false, onDead }
}

/** The follow-up with its queue decided. */
export const routedFollowUp = ({ routed, ...followUp }: FollowUp, queueOf: Decide): FollowUp =>
  routed === true ? { ...followUp, queue: queueOf(followUp.kind) ?? followUp.queue } : followUp

/** Wraps an enqueue function: it routes jobs without a queue first. */
export const apply =
  <A, E>(routes: typeof Routes.Service, enqueue: (jobs: ReadonlyArray<NewJob>) => Effect.Effect<A, E>) =>
  (jobs: ReadonlyArray<NewJob>): Effect.Effect<A, E | DatabaseError> => {
    if (!jobs.some(isRouted)) return enqueue(jobs)
    const store = (queueOf: Decide) => enqueue(jobs.map((job) => (isRouted(job) ? routed(job, queueOf) : job)))
    const known = routes.cached()
    return known === undefined ? Effect.flatMap(routes.current, store) : store(known)
  }
