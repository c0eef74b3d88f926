import { Readable } from "node:stream"

/** What a listener may leave unread before it is dropped. */
const mostUnread = 1024 * 1024

/** One event in the form that a browser's EventSource reads. JSON has no line breaks of its own. */
export const eventText = (name: string, id: number, data: unknown): string =>
  `event: ${name}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`

/** A comment, which nobody sees: it keeps proxies in between from thinking that nobody is there. */
export const heartbeat = ": \n\n"

/** One who follows live events: the body of an answer that does not end by itself. */
export class LiveListener extends Readable {
  constructor() {
    super({ highWaterMark: 64 * 1024 })
  }

  override _read(): void {}

  /** Hands text over. One who does not read is dropped, instead of being remembered for. */
  tell(text: string): void {
    if (this.destroyed || this.readableEnded) return
    if (this.readableLength + text.length > mostUnread) this.destroy()
    else this.push(text)
  }

  /** There is no more to come. */
  finish(): void {
    if (!this.destroyed) this.push(null)
  }
}
