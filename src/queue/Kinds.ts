import { Context, Effect, Layer } from "effect"
import type { OnDead } from "../core/StoredJob.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import { Tally } from "../telemetry/Tally.js"
import type { PayloadCheck } from "./enqueue/PayloadCheck.js"
import type { KindDefaults } from "./Job.js"
import { UnknownKind } from "./JobErrors.js"

/** A kind as processes without its code see it. */
export interface RegisteredKind extends KindDefaults {
  /** Its jobs are executions, which are started and not enqueued. */
  readonly workflow?: boolean | undefined
  readonly onDead: OnDead | undefined
  /** JSON Schema of the payload, as text. Absent if the schema cannot be expressed as JSON Schema. */
  readonly schema?: string | undefined
  /** The payload schema as code, only in the process that registered it. */
  readonly check?: PayloadCheck | undefined
}

/** Registry of job kinds, shared by the cluster. */
export class Kinds extends Context.Tag("nightshift/queue/Kinds")<
  Kinds,
  {
    /**
     * Registers the kinds that a pod serves. The latest registration of a name wins; a lower version does not replace a
     * higher one.
     */
    readonly register: (kinds: ReadonlyArray<RegisteredKind>) => Effect.Effect<void, DatabaseError>
    /** Returns a kind by name. Fails with UnknownKind if no process has registered it. */
    readonly find: (name: string) => Effect.Effect<RegisteredKind, UnknownKind | DatabaseError>
    /** All registered kinds, by name. */
    readonly all: Effect.Effect<ReadonlyArray<RegisteredKind>, DatabaseError>
  }
>() {}

/** Gives the metrics of registered kinds their own series. */
export const preferIn = (tally: typeof Tally.Service, kinds: ReadonlyArray<RegisteredKind>): void =>
  tally.prefer({ kinds: kinds.map(({ name }) => name), queues: kinds.map(({ queue }) => queue) })

const makeMemory = (tally: typeof Tally.Service): typeof Kinds.Service => {
  const known = new Map<string, RegisteredKind>()
  return {
    register: (kinds) =>
      Effect.sync(() => {
        preferIn(tally, kinds)
        for (const kind of kinds) {
          if ((known.get(kind.name)?.version ?? 0) <= kind.version) known.set(kind.name, kind)
        }
      }),
    find: (name) =>
      Effect.suspend(() => {
        const kind = known.get(name)
        return kind === undefined ? new UnknownKind({ kind: name }) : Effect.succeed(kind)
      }),
    all: Effect.sync(() => [...known.values()].sort((left, right) => (left.name < right.name ? -1 : 1)))
  }
}

export const layerMemory: Layer.Layer<Kinds> = Layer.effect(
  Kinds,
  Effect.gen(function* () {
    return makeMemory(yield* Tally)
  })
)
