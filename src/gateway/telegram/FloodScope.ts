// Telegram says how long to wait and not whose limit it is: that of the chat, or that of the bot as a whole. Where other chats
// still get their messages, it is the chat's. Where one chat after another is refused and none gets through, it is the bot's.

/** This many chats refused in a row, without a message that arrived in between, mean the bot. */
const crowd = 5

/** Decides who waits when Telegram refuses a message: the chat alone, or the whole bot. */
export class FloodScope {
  /** Chats that were refused since the last message arrived, with the end of their wait. */
  private readonly refused = new Map<number, number>()

  /** A message arrived: whatever was refused, the bot as a whole may speak. */
  arrived(): void {
    this.refused.clear()
  }

  /** A chat was told to wait until an instant. */
  told(chat: number, until: number, now: number): "key" | "queue" {
    for (const [other, end] of this.refused) if (end <= now) this.refused.delete(other)
    this.refused.set(chat, until)
    return this.refused.size >= crowd ? "queue" : "key"
  }
}
