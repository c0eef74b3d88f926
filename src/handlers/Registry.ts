import type { RegisteredKind } from "../queue/Kinds.js"
import { type Decoded, make as makeDecoder } from "./Decode.js"
import type { Handler } from "./Handler.js"
import * as KindSchema from "./KindSchema.js"

/** A handler with its kind's payload reader. */
export interface Entry<out R> {
  readonly handler: Handler<R>
  readonly decode: (payload: unknown, version: number) => Decoded
}

/** The kinds that this process can run, by name. */
export type Registry<R> = ReadonlyMap<string, Entry<R>>

/** The last handler given for a kind is the one that runs it. */
export const make = <R>(handlers: ReadonlyArray<Handler<R>>): Registry<R> =>
  new Map(handlers.map((handler) => [handler.kind.name, { handler, decode: makeDecoder(handler.kind) }]))

/** What the cluster is told about these kinds. */
export const registeredKinds = <R>(registry: Registry<R>): ReadonlyArray<RegisteredKind> =>
  [...registry.values()].map(({ handler: { kind } }) => ({
    name: kind.name,
    queue: kind.queue,
    ...(kind.routed ? { routed: true } : {}),
    version: kind.version,
    maxAttempts: kind.maxAttempts,
    schema: KindSchema.jsonSchemaOf(kind),
    check: KindSchema.checkOf(kind),
    // A follow-up that depends on the payload can only be made by those who have the code.
    onDead: typeof kind.onDead === "object" ? kind.onDead : undefined
  }))
