// Types without Effect: those of programs that use promises are made from them.

/** Why webhooks are not sent: an operator disabled the endpoint, its attempts failed for days, or it responded 410. */
export type DisabledBecause = "operator" | "failing" | "gone"

/** What an endpoint is doing: it works, its last attempts failed, or nothing is sent to it. */
export type Standing = "healthy" | "failing" | "disabled"

/** A URL of a customer to which webhooks are sent. */
export interface Endpoint {
  /** UUID. It is the key of the jobs that send to the endpoint. */
  readonly id: string
  /** Time of creation, in epoch milliseconds. */
  readonly createdAt: number
  /** Where webhooks are sent. */
  readonly url: string
  /** Whose endpoint it is. Undefined if the application has no customers. */
  readonly customer: string | undefined
  /** A note for operators; may be empty. */
  readonly description: string
  /** Only webhooks of these types are sent. Undefined for all. */
  readonly types: ReadonlyArray<string> | undefined
  /** Since when nothing is sent, in epoch milliseconds. Undefined while the endpoint is enabled. */
  readonly disabledAt: number | undefined
  /** Why nothing is sent. */
  readonly disabledBecause: DisabledBecause | undefined
  /** The first failed attempt since the last success, in epoch milliseconds. Undefined after a success. */
  readonly firstFailedAt: number | undefined
  /** Failed attempts since the last success. */
  readonly failures: number
  /** Error of the last failed attempt. Undefined after a success. */
  readonly lastError: string | undefined
}

/** An endpoint to create. */
export interface NewEndpoint {
  /** An http or https URL without credentials, up to 2,000 characters. */
  readonly url: string
  /** Whose endpoint it is, up to 256 characters: an id of your application. [none] */
  readonly customer?: string | undefined
  /** A note for operators, up to 500 characters. [empty] */
  readonly description?: string | undefined
  /** Send only webhooks of these types, up to 100. [all] */
  readonly types?: ReadonlyArray<string> | undefined
  /** Signing secret: `whsec_` and 24 to 64 bytes in base64. [generated] */
  readonly secret?: string | undefined
}

/** Fields of an endpoint that can be changed. `null` for types means all. */
export interface EndpointPatch {
  /** Where webhooks are sent. */
  readonly url?: string | undefined
  /** A note for operators. */
  readonly description?: string | undefined
  /** Send only webhooks of these types; null for all. */
  readonly types?: ReadonlyArray<string> | null | undefined
}

/** To which endpoints a webhook is sent: to one, or to those of a customer that want its type. */
export interface SendTo {
  /** Type of the webhook, such as `order.paid`. */
  readonly type: string
  /** Id of the only endpoint. [those of the customer] */
  readonly endpoint?: string | undefined
  /** Whose endpoints. [those without a customer] */
  readonly customer?: string | undefined
}
