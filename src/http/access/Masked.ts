import { Effect } from "effect"
import * as Masking from "../../telemetry/Masking.js"
import { Forbidden } from "../RequestErrors.js"
import { AccessConfig } from "./AccessConfig.js"
import { Caller, seesAll } from "./Caller.js"

/** How masked fields are hidden from a viewer. */
export interface Mask {
  readonly json: (value: unknown) => unknown
  /** Hides masked values of the payload in an error message. */
  readonly text: (message: string | null, payload: unknown) => string | null
}

/** Response bodies per caller: an admin sees everything, a viewer sees masked fields hidden. */
export interface Masked {
  /** The whole view for an admin, the hidden one for a viewer. */
  readonly view: <A>(whole: A, hidden: (whole: A, mask: Mask) => A) => Effect.Effect<A>
  /** The hidden view, for answers that admins and viewers share. */
  readonly shared: <A>(whole: A, hidden: (whole: A, mask: Mask) => A) => A
  /** Masks any JSON value. */
  readonly json: (value: unknown) => Effect.Effect<unknown>
  /** Fails if a viewer filters by a masked field, which would reveal its value. */
  readonly checkFilterAllowed: (payload: unknown) => Effect.Effect<void, Forbidden>
}

export const make: Effect.Effect<Masked, never, AccessConfig> = Effect.map(AccessConfig, ({ mask: names }) => {
  const maskText = Masking.makeText(names)
  const mask: Mask = {
    json: Masking.make(names),
    text: (message, payload) => (message === null ? null : maskText(message, payload))
  }
  const shared: Masked["shared"] = (whole, hidden) => (names.length === 0 ? whole : hidden(whole, mask))
  const view: Masked["view"] = (whole, hidden) =>
    Effect.map(Caller, (caller) => (seesAll(caller) ? whole : shared(whole, hidden)))
  return {
    view,
    shared,
    json: (value) => view(value, mask.json),
    checkFilterAllowed: (payload) =>
      Effect.flatMap(Caller, (caller) =>
        seesAll(caller) || payload === undefined || !Masking.touches(names, payload)
          ? Effect.void
          : new Forbidden({
              message: "This filter uses fields that NIGHTSHIFT_MASK hides from viewers. Use the admin token."
            })
      )
  }
})
