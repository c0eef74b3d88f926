// Telegram says how long to wait and not whom it means: one chat that was written to too often, or the bot as a whole. Many
// chats that are told to wait at the same time are the bot.

/** So many chats that wait at once mean the bot. */
const crowd = 5

/** Remembers which chats were told to wait, and says who is to wait with the next one. */
export class FloodScope {
  private readonly waiting = new Map<number, number>()

  /** A chat was told to wait until an instant. */
  told(chat: number, until: number, now: number): "key" | "queue" {
    for (const [other, end] of this.waiting) if (end <= now) this.waiting.delete(other)
    this.waiting.set(chat, until)
    return this.waiting.size >= crowd ? "queue" : "key"
  }
}
