import { type Data, Either, Schema } from "effect"
import * as Tagged from "../core/Tagged.js"
import type { JobKind } from "../queue/Job.js"

/** A payload ready for its handler, or why it cannot be. */
export type Decoded = Data.TaggedEnum<{
  Ready: { readonly payload: never }
  /** Written by newer code than this pod's. */
  TooNew: { readonly version: number }
  /** No known version of the schema reads it. */
  Unreadable: { readonly reason: string }
}>
export const Decoded = Tagged.taggedEnum<Decoded>({ Ready: true, TooNew: true, Unreadable: true })

/** Reads stored payloads of a kind. Made once per kind: preparing a schema costs more than using it. */
export const make = (kind: JobKind<never>): ((payload: unknown, version: number) => Decoded) => {
  const decode = Schema.decodeUnknownEither(kind.payload)
  return (stored, version) => {
    if (version > kind.version) return Decoded.TooNew({ version })
    let payload = stored
    for (let from = version; from < kind.version; from += 1) {
      const upcast = kind.upcasters[from]
      if (upcast === undefined)
        return Decoded.Unreadable({ reason: `there is no way from version ${from} to ${from + 1}` })
      try {
        payload = upcast(payload)
      } catch (error) {
        return Decoded.Unreadable({ reason: `raising it from version ${from} failed: ${String(error)}` })
      }
    }
    try {
      return Either.match(decode(payload), {
        onLeft: (error) => Decoded.Unreadable({ reason: error.message }),
        onRight: (ready) => Decoded.Ready({ payload: ready })
      })
    } catch (error) {
      // A transformation of the schema's, or a recursive schema and a payload that is nested too deep for the stack.
      return Decoded.Unreadable({ reason: `decoding it failed: ${String(error)}` })
    }
  }
}
