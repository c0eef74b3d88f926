import { Redacted } from "effect"
import * as Push from "../gateway/push/Push.js"
import type { JobKind } from "../queue/Job.js"
import { checkKnown, namesOf } from "./Options.js"
import type { CoreHandler } from "./PromiseHandler.js"
import { InvalidOptionError } from "./ShiftErrors.js"
import type { Decoded } from "./StandardSchema.js"

/** Where the jobs of a kind are sent. */
export interface PushOptions {
  /** An http or https URL without credentials. Private addresses must be listed in HTTP_HANDLER_ALLOW. */
  readonly url: string | URL
  /** Signing secret: `whsec_` and 24 to 64 bytes in base64. Several while they are rotated: each signs the request. */
  readonly secret: string | ReadonlyArray<string>
  /** What pauses if the endpoint responds 429 or 503 with Retry-After: the queue, the jobs of the key, or the job. [`queue`] */
  readonly throttles?: "queue" | "key" | "job" | undefined
}

const pushOptions = namesOf<PushOptions>({ url: 0, secret: 0, throttles: 0 })

/** Makes a handler that sends jobs to a URL. Throws InvalidOptionError for an invalid option. @internal */
export const make = (kind: JobKind<Decoded>, given: PushOptions): CoreHandler => {
  checkKnown(given, pushOptions, `an option of push for "${kind.name}"`)
  const secrets = Array.isArray(given.secret) ? given.secret : [given.secret]
  const options = { ...given, secret: secrets.map((secret: unknown) => Redacted.make(String(secret))) }
  const [option, message] = Push.fault(options) ?? []
  if (option !== undefined && message !== undefined)
    throw new InvalidOptionError(option, `push of "${kind.name}": ${message}`)
  return Push.make(kind, options)
}
