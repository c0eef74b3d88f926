import { Context, Effect, Schema } from "effect"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { isQueueName, isUnstorable, type NewJob } from "../enqueue/NewJob.js"

/** Where kinds go that begin so and name no queue. */
export interface Route {
  readonly prefix: string
  readonly queue: string
}

/** Routes as code and settings declare them: a queue by prefix. `null` takes back what was declared before. */
export type DeclaredRoutes = Readonly<Record<string, string | null>>

/** A route that cannot be one. */
export class InvalidRoute extends Schema.TaggedError<InvalidRoute>()("InvalidRoute", {
  prefix: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `The route for kinds that begin with ${JSON.stringify(this.prefix.slice(0, 80))} ${this.reason}.`
  }
}

/** What is wrong with declared routes, or nothing. */
export const faultOf = (declared: DeclaredRoutes): InvalidRoute | undefined => {
  for (const [prefix, queue] of Object.entries(declared)) {
    if (prefix === "" || prefix.length > 128 || isUnstorable(prefix)) {
      return new InvalidRoute({ prefix, reason: "needs a prefix of 1 to 128 characters without NUL" })
    }
    if (queue !== null && !isQueueName(queue)) {
      const reason = `leads to ${JSON.stringify(queue)}, which cannot be a queue: 1 to 64 letters, digits, _, . or -`
      return new InvalidRoute({ prefix, reason })
    }
  }
  return undefined
}

/** Routes ready to be asked, over and over, by kind: the queue, or nothing where no prefix fits. */
export type Decide = (kind: string) => string | undefined

/** The one rule: of all prefixes of a kind's name, the longest decides. */
export const decide = (routes: ReadonlyArray<Route>): Decide => {
  const longestFirst = routes.toSorted((a, b) => b.prefix.length - a.prefix.length)
  return (kind) => longestFirst.find(({ prefix }) => kind.startsWith(prefix))?.queue
}

/** Where jobs go that name no queue, as pods declared it. */
export class Routes extends Context.Tag("nightshift/queue/Routes")<
  Routes,
  {
    /** Declares routes. The latest declaration of a prefix stands, whichever pod made it; `null` removes one. */
    readonly register: (declared: DeclaredRoutes) => Effect.Effect<void, InvalidRoute | DatabaseError>

    /** Every route, by prefix. */
    readonly all: Effect.Effect<ReadonlyArray<Route>, DatabaseError>

    /** The rule over the routes as they stand; what other processes declared may be missing for a second. */
    readonly current: Effect.Effect<Decide, DatabaseError>
  }
>() {}

/** Sends jobs whose queue is open where the routes say, and all others where they are going. */
export const apply =
  <A, E>(routes: typeof Routes.Service, enqueue: (jobs: ReadonlyArray<NewJob>) => Effect.Effect<A, E>) =>
  (jobs: ReadonlyArray<NewJob>): Effect.Effect<A, E | DatabaseError> =>
    jobs.some(({ routed }) => routed === true)
      ? Effect.flatMap(routes.current, (queueOf) =>
          enqueue(
            jobs.map((job) => {
              const queue = job.routed === true ? queueOf(job.kind) : undefined
              return queue === undefined ? job : { ...job, queue }
            })
          )
        )
      : enqueue(jobs)
