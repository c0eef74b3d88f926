import { type Data, Either, Schema } from "effect"
import * as ErrorText from "../core/ErrorText.js"
import { type Unopened, unopened } from "../core/Sealed.js"
import * as Tagged from "../core/Tagged.js"
import type { JobKind } from "../queue/Job.js"

/** A decoded payload, or why it could not be decoded. */
export type Decoded = Data.TaggedEnum<{
  Ready: { readonly payload: never }
  /** The payload was written by a newer version of the kind than this pod has. */
  TooNew: { readonly version: number }
  /** The payload does not match the schema. */
  Unreadable: { readonly reason: string }
  /** The payload is sealed with a key that this pod does not have, or it was changed since. */
  Sealed: { readonly unopened: Unopened }
}>
export const Decoded = Tagged.taggedEnum<Decoded>({ Ready: true, TooNew: true, Unreadable: true, Sealed: true })

/** A stored payload in the form of the kind's current version, or why that is impossible. */
export const upcasted = (kind: JobKind<never>, stored: unknown, version: number): Either.Either<unknown, string> => {
  let payload = stored
  for (let from = version; from < kind.version; from += 1) {
    const upcast = kind.upcasters[from]
    if (upcast === undefined) {
      return Either.left(`the kind has no upcaster from version ${from} to ${from + 1}; add one and requeue the job`)
    }
    try {
      payload = upcast(payload)
    } catch (error) {
      return Either.left(`the upcaster from version ${from} failed: ${ErrorText.messageOf(error)}`)
    }
  }
  return Either.right(payload)
}

/**
 * Makes a decoder of stored payloads. Call it once per kind: compiling a schema costs more than decoding. With `keeps`, the
 * result is the stored form of a payload that the schema accepts.
 */
export const make = (kind: JobKind<never>, keeps = false): ((payload: unknown, version: number) => Decoded) => {
  const decode = Schema.decodeUnknownEither(kind.payload)
  return (stored, version) => {
    const sealed = unopened(stored)
    if (sealed !== undefined) return Decoded.Sealed({ unopened: sealed })
    if (version > kind.version) return Decoded.TooNew({ version })
    const upcast = version === kind.version ? Either.right(stored) : upcasted(kind, stored, version)
    if (Either.isLeft(upcast)) return Decoded.Unreadable({ reason: upcast.left })
    try {
      return Either.match(decode(upcast.right), {
        onLeft: (error) => Decoded.Unreadable({ reason: error.message }),
        onRight: (ready: unknown) => {
          // An asynchronous validator: nothing waits for its result.
          if (keeps && ready instanceof Promise) ready.catch(() => {})
          return Decoded.Ready({ payload: (keeps ? upcast.right : ready) as never })
        }
      })
    } catch (error) {
      // A transformation threw, or a recursive schema overflowed the stack on a deeply nested payload.
      return Decoded.Unreadable({ reason: `decoding failed: ${ErrorText.messageOf(error)}` })
    }
  }
}
