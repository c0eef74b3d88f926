import { Readable } from "node:stream"

/** Maximum unread data before a listener is disconnected. */
const mostUnread = 1024 * 1024

/** Formats a server-sent event. JSON contains no line breaks, so one `data` line is enough. */
export const eventText = (name: string, id: number, data: unknown): string =>
  `event: ${name}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`

/** An SSE comment, which keeps proxies from closing an idle connection. */
export const heartbeat = ": \n\n"

/** The response body of one live event stream. */
export class LiveListener extends Readable {
  constructor() {
    super({ highWaterMark: 64 * 1024 })
  }

  override _read(): void {}

  /** Sends text. Disconnects a listener that does not read, so memory stays bounded. */
  send(text: string): void {
    if (this.destroyed || this.readableEnded) return
    if (this.readableLength + text.length > mostUnread) this.destroy()
    else this.push(text)
  }

  /** Ends the stream. */
  finish(): void {
    if (!this.destroyed) this.push(null)
  }
}
