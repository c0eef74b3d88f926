import { createHash } from "node:crypto"
import { Either, Option } from "effect"
import type { Releases } from "../cluster/Pods.js"
import * as ErrorText from "../core/ErrorText.js"
import { computed, type FollowUp, limits } from "../core/StoredJob.js"
import type { NewSubscription } from "../queue/events/Events.js"
import type { JobKind } from "../queue/Job.js"
import type { RegisteredKind } from "../queue/Kinds.js"
import { faultOfFollowUp, jsonText } from "../queue/NewJob.js"
import { type Decoded, make as makeDecoder, upcasted } from "./Decode.js"
import type { Handler } from "./Handler.js"
import * as KindSchema from "./KindSchema.js"

/** A handler and the decoder of its payloads. */
export interface Entry<out R> {
  readonly handler: Handler<R>
  readonly decode: (payload: unknown, version: number) => Decoded
  /** Computes the follow-up of a dead job. Undefined if the kind has none, or its jobs store their follow-up. */
  readonly followUp: FollowUpOf | undefined
}

/** Returns the follow-up, or why it cannot be made. */
export type FollowUpOf = (payload: unknown, version: number) => Either.Either<FollowUp, string>

const followUpOf = (kind: JobKind<never>): FollowUpOf | undefined => {
  const { followUpOf } = kind
  if (followUpOf === undefined) return undefined
  const faultOf = (followUp: FollowUp): string | undefined => {
    const fault = faultOfFollowUp(followUp)
    return fault?.join(" ") ?? Option.getOrUndefined(Either.getLeft(jsonText(followUp, limits.payloadBytes)))
  }
  return (payload, version) => {
    const upcast = upcasted(kind, payload, version)
    if (Either.isLeft(upcast)) return Either.left(upcast.left)
    try {
      const followUp = followUpOf(upcast.right)
      const fault = faultOf(followUp)
      return fault === undefined
        ? Either.right(followUp)
        : Either.left(`onDead returned an invalid follow-up: ${fault}`)
    } catch (error) {
      return Either.left(`onDead threw: ${ErrorText.messageOf(error)}`)
    }
  }
}

/** Handlers of this process by kind name. */
export type Registry<R> = ReadonlyMap<string, Entry<R>>

/** If a kind has several handlers, the last one wins. */
export const make = <R>(handlers: ReadonlyArray<Handler<R>>): Registry<R> =>
  new Map(
    handlers.map((handler) => [
      handler.kind.name,
      { handler, decode: makeDecoder(handler.kind, handler.keepsStored), followUp: followUpOf(handler.kind) }
    ])
  )

/** The releases of the workflows of this process. `version` is the configured version of the program, if any. */
export const releases = <R>(registry: Registry<R>, version: string | undefined): Releases =>
  Object.fromEntries(
    [...registry.values()].flatMap(({ handler: { kind, source } }) => {
      const parts = JSON.stringify([version, kind.version, source])
      return kind.workflow === true ? [[kind.name, createHash("sha256").update(parts).digest("hex").slice(0, 12)]] : []
    })
  )

/** Names of the workflows of this process whose executions are pinned. */
export const pinnedKinds = <R>(registry: Registry<R>): ReadonlyArray<string> =>
  [...registry.values()].flatMap(({ handler: { kind } }) => (kind.pinned === true ? [kind.name] : []))

/** The kinds as this pod registers them in the cluster. */
export const registeredKinds = <R>(registry: Registry<R>): ReadonlyArray<RegisteredKind> =>
  [...registry.values()].map(({ handler: { kind } }) => ({
    name: kind.name,
    queue: kind.queue,
    ...(kind.routed ? { routed: true } : {}),
    version: kind.version,
    attempts: kind.attempts,
    ...(kind.priority === 0 ? {} : { priority: kind.priority }),
    ...(kind.workflow === true ? { workflow: true } : {}),
    schema: KindSchema.jsonSchemaOf(kind),
    check: KindSchema.checkOf(kind),
    onDead: kind.followUpOf === undefined ? (kind.onDead as FollowUp | undefined) : computed
  }))

/** The events that the kinds of this pod subscribe to. */
export const subscriptions = <R>(registry: Registry<R>): ReadonlyArray<NewSubscription> =>
  [...registry.values()].flatMap(({ handler: { kind } }) => kind.subscribes ?? [])
