// Telegram's 429 does not say whether the chat's limit or the bot's limit was exceeded. If other chats still receive
// messages, it is the chat's. If several chats in a row are throttled and none receives a message, it is the bot's.

/** Number of chats throttled in a row, with no message sent in between, that means the bot's limit. */
const botWideThreshold = 5

/** Decides whether a throttled message pauses its chat or the whole bot. */
export class FloodScope {
  /** Chats throttled since the last sent message, with the end of their wait in epoch milliseconds. */
  private readonly waiting = new Map<number, number>()

  /** Records a sent message, which shows that the bot as a whole is not throttled. */
  sent(): void {
    this.waiting.clear()
  }

  /** Records a throttled chat and returns the scope to pause. */
  throttled(chat: number, until: number, now: number): "key" | "queue" {
    for (const [other, end] of this.waiting) if (end <= now) this.waiting.delete(other)
    this.waiting.set(chat, until)
    return this.waiting.size >= botWideThreshold ? "queue" : "key"
  }
}
