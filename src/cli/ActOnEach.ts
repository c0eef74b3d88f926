import { Console, Effect } from "effect"
import { DatabaseConflict, type DatabaseError, DatabaseFault, DatabaseUnavailable } from "../database/DatabaseError.js"
import { SomeFailed } from "./Failure.js"
import { printJson } from "./Terminal.js"

interface Refusal {
  readonly _tag: string
  readonly message: string
}

/** An action on one object. `view` is the JSON of its outcome, and gets undefined if the action was rejected. */
interface Act<Id extends string, A, E extends Refusal, R> {
  readonly act: (id: Id) => Effect.Effect<A, E | DatabaseError, R>
  readonly report: (done: A) => string
  readonly view: (id: Id, done: A | undefined) => object
}

const isOfDatabase = (error: unknown): error is DatabaseError =>
  error instanceof DatabaseUnavailable || error instanceof DatabaseConflict || error instanceof DatabaseFault

/** Acts on each object in turn. A rejected one does not stop the others. After a database error, the others are not attempted. */
export const actOnEach = <Id extends string, A, E extends Refusal, R>(
  ids: ReadonlyArray<Id>,
  json: boolean,
  { act, report, view }: Act<Id, A, E, R>
): Effect.Effect<void, SomeFailed, R> =>
  Effect.gen(function* () {
    const refused = (id: Id, { _tag: tag, message }: Refusal) => ({
      view: { ...view(id, undefined), error: { tag, message } },
      reasons: [message]
    })
    let failedAt: Id | undefined
    const outcomes = yield* Effect.forEach(ids, (id) =>
      failedAt === undefined
        ? act(id).pipe(
            Effect.tap((done) => (json ? Effect.void : Console.log(report(done)))),
            Effect.map((done) => ({ view: { ...view(id, done), error: null }, reasons: [] })),
            Effect.catchAll((error) => {
              if (isOfDatabase(error)) failedAt = id
              return Effect.succeed(refused(id, error))
            })
          )
        : Effect.succeed(
            refused(id, { _tag: "NotAttempted", message: `${id} was not attempted after the failure of ${failedAt}.` })
          )
    )
    if (json) yield* printJson(outcomes.map(({ view }) => view))
    const reasons = outcomes.flatMap(({ reasons }) => reasons)
    if (reasons.length > 0) return yield* new SomeFailed({ reasons })
  })
