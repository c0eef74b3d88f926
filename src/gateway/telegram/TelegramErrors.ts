import { Schema } from "effect"

// What can go wrong between us and Telegram's Bot API. Each names the method and never the url: the url holds the token.

/** Telegram asks for a pause. */
export class TelegramThrottled extends Schema.TaggedError<TelegramThrottled>()("TelegramThrottled", {
  method: Schema.String,
  /** Seconds. */
  retryAfter: Schema.Number
}) {
  override get message(): string {
    return `Telegram asks to wait ${this.retryAfter} s before the next ${this.method}.`
  }
}

/** The user has blocked the bot, or the bot was put out of the chat: nothing said there will arrive. */
export class ChatClosed extends Schema.TaggedError<ChatClosed>()("ChatClosed", {
  method: Schema.String,
  description: Schema.String
}) {
  override get message(): string {
    return `Telegram refused ${this.method}: ${this.description}`
  }
}

/** Telegram knows the token no longer, or never did. */
export class TokenRefused extends Schema.TaggedError<TokenRefused>()("TokenRefused", { method: Schema.String }) {
  override get message(): string {
    return `Telegram refused ${this.method}: it does not know the bot's token.`
  }
}

/** What was asked cannot be done, now or later. */
export class TelegramRefused extends Schema.TaggedError<TelegramRefused>()("TelegramRefused", {
  method: Schema.String,
  status: Schema.Int,
  description: Schema.String
}) {
  override get message(): string {
    return `Telegram refused ${this.method} with ${this.status}: ${this.description}`
  }
}

/** Telegram did not answer, or said that it could not. */
export class TelegramUnavailable extends Schema.TaggedError<TelegramUnavailable>()("TelegramUnavailable", {
  method: Schema.String,
  reason: Schema.String,
  /** Whether it may have been done all the same. */
  maybeDone: Schema.Boolean
}) {
  override get message(): string {
    return `Telegram did not answer ${this.method} (${this.reason}).`
  }
}

export type TelegramError = TelegramThrottled | ChatClosed | TokenRefused | TelegramRefused | TelegramUnavailable
