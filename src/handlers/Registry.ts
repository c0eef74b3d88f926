import type { RegisteredKind } from "../queue/Kinds.js"
import { type Decoded, make as makeDecoder } from "./Decode.js"
import type { Handler } from "./Handler.js"
import * as KindSchema from "./KindSchema.js"

/** A handler and the decoder of its payloads. */
export interface Entry<out R> {
  readonly handler: Handler<R>
  readonly decode: (payload: unknown, version: number) => Decoded
}

/** Handlers of this process by kind name. */
export type Registry<R> = ReadonlyMap<string, Entry<R>>

/** If a kind has several handlers, the last one wins. */
export const make = <R>(handlers: ReadonlyArray<Handler<R>>): Registry<R> =>
  new Map(handlers.map((handler) => [handler.kind.name, { handler, decode: makeDecoder(handler.kind) }]))

/** The kinds as this pod registers them in the cluster. */
export const registeredKinds = <R>(registry: Registry<R>): ReadonlyArray<RegisteredKind> =>
  [...registry.values()].map(({ handler: { kind } }) => ({
    name: kind.name,
    queue: kind.queue,
    ...(kind.routed ? { routed: true } : {}),
    version: kind.version,
    maxAttempts: kind.maxAttempts,
    schema: KindSchema.jsonSchemaOf(kind),
    check: KindSchema.checkOf(kind),
    // A follow-up computed from the payload is a function and cannot be stored: only pods with the code can make it.
    onDead: typeof kind.onDead === "object" ? kind.onDead : undefined
  }))
