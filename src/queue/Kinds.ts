import { Context, type Effect } from "effect"
import type { FollowUp } from "../core/StoredJob.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { PayloadCheck } from "./enqueue/PayloadCheck.js"
import type { UnknownKind } from "./JobErrors.js"

/** What those who do not have a kind's code need to know of it. */
export interface RegisteredKind {
  readonly name: string
  readonly queue: string
  /** It names no queue: a route for its name goes before `queue`. */
  readonly routed?: boolean | undefined
  /** The current version of its payload. */
  readonly version: number
  readonly maxAttempts: number
  readonly onDead: FollowUp | undefined
  /** What its payload looks like: JSON Schema, as text. Absent where there is no way to say it. */
  readonly schema?: string | undefined
  /** The same as code, in the process that registered it. */
  readonly check?: PayloadCheck | undefined
}

/** Kinds as the cluster knows them. */
export class Kinds extends Context.Tag("nightshift/queue/Kinds")<
  Kinds,
  {
    /** Declares the kinds that a pod serves. The latest declaration of a name stands; a lower version does not replace it. */
    readonly register: (kinds: ReadonlyArray<RegisteredKind>) => Effect.Effect<void, DatabaseError>
    readonly find: (name: string) => Effect.Effect<RegisteredKind, UnknownKind | DatabaseError>
    readonly all: Effect.Effect<ReadonlyArray<RegisteredKind>, DatabaseError>
  }
>() {}
