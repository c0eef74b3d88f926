import { Schema } from "effect"

// Why no usable answer came from the url of a bot's `handler: http`. Each is named for what a person can do about it.

/** The name leads inward, and nobody said that it may. */
export class AddressRefused extends Schema.TaggedError<AddressRefused>()("AddressRefused", {
  host: Schema.String,
  address: Schema.String
}) {
  override get message(): string {
    return `${this.host} leads to ${this.address}, which is not an address of the open Internet. List it in HTTP_HANDLER_ALLOW if that is meant.`
  }
}

/** Nobody could be reached, or the connection broke. */
export class UpstreamUnreachable extends Schema.TaggedError<UpstreamUnreachable>()("UpstreamUnreachable", {
  host: Schema.String,
  code: Schema.String
}) {
  override get message(): string {
    return `${this.host} gave no answer (${this.code}).`
  }
}

/** The whole answer was not there in time. */
export class UpstreamTimeout extends Schema.TaggedError<UpstreamTimeout>()("UpstreamTimeout", {
  host: Schema.String,
  after: Schema.String
}) {
  override get message(): string {
    return `${this.host} gave no answer within ${this.after}.`
  }
}

/** An answer that is not a success. */
export class UpstreamRefused extends Schema.TaggedError<UpstreamRefused>()("UpstreamRefused", {
  host: Schema.String,
  status: Schema.Int,
  /** How long it asked to be left alone, in seconds. */
  retryAfter: Schema.optional(Schema.Number)
}) {
  override get message(): string {
    return `${this.host} answered ${this.status}.`
  }
}

/** The answer points elsewhere, and is not followed there. */
export class UpstreamRedirected extends Schema.TaggedError<UpstreamRedirected>()("UpstreamRedirected", {
  host: Schema.String,
  status: Schema.Int,
  reason: Schema.String
}) {
  override get message(): string {
    return `${this.host} answered ${this.status} and points elsewhere: ${this.reason}.`
  }
}

/** The answer is longer than anyone may send us. */
export class UpstreamTooLarge extends Schema.TaggedError<UpstreamTooLarge>()("UpstreamTooLarge", {
  host: Schema.String,
  mostBytes: Schema.Int
}) {
  override get message(): string {
    return `${this.host} answered with more than ${this.mostBytes} bytes.`
  }
}

/** A success without a word; 204 says that there is nothing to say. */
export class UpstreamEmpty extends Schema.TaggedError<UpstreamEmpty>()("UpstreamEmpty", {
  host: Schema.String,
  status: Schema.Int
}) {
  override get message(): string {
    return `${this.host} answered ${this.status} with an empty body. Answer 204 where there is nothing to say.`
  }
}

/** A body that is not the JSON it should be. */
export class UpstreamNotJson extends Schema.TaggedError<UpstreamNotJson>()("UpstreamNotJson", {
  host: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `${this.host} answered something that is not JSON: ${this.reason}.`
  }
}

/** JSON, but without the text to be said. */
export class UpstreamWithoutText extends Schema.TaggedError<UpstreamWithoutText>()("UpstreamWithoutText", {
  host: Schema.String
}) {
  override get message(): string {
    return `${this.host} answered JSON without "text". Answer {"text": "…"}, or 204 where there is nothing to say.`
  }
}

export type UpstreamError =
  | AddressRefused
  | UpstreamUnreachable
  | UpstreamTimeout
  | UpstreamRefused
  | UpstreamRedirected
  | UpstreamTooLarge
  | UpstreamEmpty
  | UpstreamNotJson
  | UpstreamWithoutText
