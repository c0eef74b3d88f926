import { Schema } from "effect"
import * as HttpUrl from "../../core/HttpUrl.js"

// Reasons why the URL of a bot's `handler: http`, or of a pushed kind, returned no usable response.

/** The host resolves to a private address that is not allowed. */
export class AddressRefused extends Schema.TaggedError<AddressRefused>()("AddressRefused", {
  host: Schema.String,
  address: Schema.String
}) {
  override get message(): string {
    const resolved = this.host === HttpUrl.hostText(this.address) ? "" : ` resolves to ${this.address}, which`
    return `${this.host}${resolved} is not a public address. Add it to HTTP_HANDLER_ALLOW to allow it.`
  }
}

/** The connection failed or was closed early. */
export class UpstreamUnreachable extends Schema.TaggedError<UpstreamUnreachable>()("UpstreamUnreachable", {
  host: Schema.String,
  code: Schema.String
}) {
  override get message(): string {
    return `${this.host} did not respond (${this.code}).`
  }
}

/** The complete response did not arrive in time. */
export class UpstreamTimeout extends Schema.TaggedError<UpstreamTimeout>()("UpstreamTimeout", {
  host: Schema.String,
  after: Schema.String
}) {
  override get message(): string {
    return `${this.host} did not respond within ${this.after}.`
  }
}

/** A status other than 2xx or 3xx. */
export class UpstreamRefused extends Schema.TaggedError<UpstreamRefused>()("UpstreamRefused", {
  host: Schema.String,
  status: Schema.Int,
  /** The Retry-After header, in seconds. */
  retryAfter: Schema.optional(Schema.Number)
}) {
  override get message(): string {
    return `${this.host} responded ${this.status}.`
  }
}

/** A redirect that is not followed. */
export class UpstreamRedirected extends Schema.TaggedError<UpstreamRedirected>()("UpstreamRedirected", {
  host: Schema.String,
  status: Schema.Int,
  reason: Schema.String
}) {
  override get message(): string {
    return `${this.host} responded ${this.status}, a redirect that is not followed: ${this.reason}.`
  }
}

/** The response exceeds the size limit. */
export class UpstreamTooLarge extends Schema.TaggedError<UpstreamTooLarge>()("UpstreamTooLarge", {
  host: Schema.String,
  maxBytes: Schema.Int
}) {
  override get message(): string {
    return `${this.host} responded with more than ${this.maxBytes} bytes.`
  }
}

/** A success with an empty body and a status other than 204. */
export class UpstreamEmpty extends Schema.TaggedError<UpstreamEmpty>()("UpstreamEmpty", {
  host: Schema.String,
  status: Schema.Int
}) {
  override get message(): string {
    return `${this.host} responded ${this.status} with an empty body. Respond 204 to send no reply.`
  }
}

export class UpstreamNotJson extends Schema.TaggedError<UpstreamNotJson>()("UpstreamNotJson", {
  host: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `${this.host} responded with a body that is not JSON: ${this.reason}.`
  }
}

/** A JSON body without `text`. */
export class UpstreamWithoutText extends Schema.TaggedError<UpstreamWithoutText>()("UpstreamWithoutText", {
  host: Schema.String
}) {
  override get message(): string {
    return `${this.host} responded with JSON without "text". Respond {"text": "…"}, or 204 to send no reply.`
  }
}
