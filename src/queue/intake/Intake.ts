import { Effect, Schema } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { UnknownKind } from "../JobErrors.js"
import { Kinds, type RegisteredKind } from "../Kinds.js"
import type { Dedupe, NewJob } from "./NewJob.js"

/** A job as somebody without the code asks for it: all they know of its kind is the name. */
export interface JobRequest {
  readonly kind: string
  readonly payload: unknown
  readonly queue?: string | undefined
  readonly priority?: number | undefined
  /** Epoch milliseconds. */
  readonly runAt?: number | undefined
  readonly maxAttempts?: number | undefined
  readonly key?: string | undefined
  readonly dedupe?: Dedupe | undefined
  readonly id?: JobId | undefined
}

/** A job of the request is of a kind that nobody ever registered. */
export class KindRefused extends Schema.TaggedError<KindRefused>()("KindRefused", {
  index: Schema.Int,
  kind: Schema.String
}) {
  override get message(): string {
    return `Job ${this.index}: ${new UnknownKind({ kind: this.kind }).message}`
  }
}

/** What holds for a kind nobody registered, when it is forced in. */
const unregistered = { queue: "default", routed: true, version: 1, maxAttempts: 5, onDead: undefined } as const

const lookUp = (names: ReadonlySet<string>): Effect.Effect<ReadonlyMap<string, RegisteredKind>, DatabaseError, Kinds> =>
  Effect.gen(function* () {
    const kinds = yield* Kinds
    const [name] = names
    // One question to the database, whatever a request holds: one kind as a rule, and a thousand at worst.
    const found =
      names.size === 1 && name !== undefined
        ? yield* kinds.find(name).pipe(
            Effect.map((kind) => [kind]),
            Effect.catchTag("UnknownKind", () => Effect.succeed([]))
          )
        : yield* kinds.all
    return new Map(found.map((kind) => [kind.name, kind]))
  })

/** Fills in what the cluster knows of each job's kind. What a request says itself wins. An open queue is the routes' to say. */
export const resolve = Effect.fn("Intake.resolve")(function* (
  requests: ReadonlyArray<JobRequest>,
  options: { readonly force: boolean }
): Effect.fn.Return<ReadonlyArray<NewJob>, KindRefused | DatabaseError, Kinds> {
  const registered = yield* lookUp(new Set(requests.map(({ kind }) => kind)))
  const unknown = requests.findIndex(({ kind }) => !registered.has(kind))
  if (unknown !== -1 && !options.force) {
    return yield* new KindRefused({ index: unknown, kind: requests[unknown]?.kind ?? "" })
  }
  return requests.map((request) => {
    const { maxAttempts, onDead, queue, routed, version } = registered.get(request.kind) ?? unregistered
    return {
      ...request,
      version,
      onDead,
      queue: request.queue ?? queue,
      routed: request.queue === undefined && routed === true,
      maxAttempts: request.maxAttempts ?? maxAttempts
    }
  })
})
