import { Schema } from "effect"

// Errors of Telegram's Bot API. They name the method and never the URL, which contains the token.

/** Telegram throttled the bot or the chat. */
export class TelegramThrottled extends Schema.TaggedError<TelegramThrottled>()("TelegramThrottled", {
  method: Schema.String,
  /** Seconds. */
  retryAfter: Schema.Number
}) {
  override get message(): string {
    return `Telegram throttled ${this.method}; retry after ${this.retryAfter} s.`
  }
}

/** The user blocked the bot, or the bot was removed from the chat. */
export class ChatClosed extends Schema.TaggedError<ChatClosed>()("ChatClosed", {
  method: Schema.String,
  description: Schema.String
}) {
  override get message(): string {
    return `Telegram refused ${this.method}: ${this.description}`
  }
}

/** Telegram does not accept the bot's token. */
export class TokenRefused extends Schema.TaggedError<TokenRefused>()("TokenRefused", { method: Schema.String }) {
  override get message(): string {
    return `Telegram refused ${this.method}: the bot's token is not valid.`
  }
}

/** Telegram rejected the request; a retry would fail the same way. */
export class TelegramRefused extends Schema.TaggedError<TelegramRefused>()("TelegramRefused", {
  method: Schema.String,
  status: Schema.Int,
  description: Schema.String
}) {
  override get message(): string {
    return `Telegram refused ${this.method} with ${this.status}: ${this.description}`
  }
}

/** Telegram did not respond, or responded with a server error. */
export class TelegramUnavailable extends Schema.TaggedError<TelegramUnavailable>()("TelegramUnavailable", {
  method: Schema.String,
  reason: Schema.String,
  /** Whether the request may still have taken effect. */
  maybeDone: Schema.Boolean
}) {
  override get message(): string {
    return `Telegram did not respond to ${this.method} (${this.reason}).`
  }
}

export type TelegramError = TelegramThrottled | ChatClosed | TokenRefused | TelegramRefused | TelegramUnavailable
