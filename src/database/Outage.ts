import * as DurationText from "../core/DurationText.js"

/** Logs a line of an outage. */
export type Log = (level: "error" | "info", text: string) => void

/**
 * Logs one line when every server of the URL has stopped accepting connections, and one when a server accepts them again.
 * Ignores failures before the first connection: the startup logs its own retries.
 */
export class Outage {
  private connected = false
  private failures = 0
  private since: number | undefined

  constructor(
    private readonly options: { readonly address: string; readonly servers: number; readonly log: Log },
    private readonly now: () => number = () => performance.now()
  ) {}

  /** Records that a connection could not be opened. The outage begins when every server of the URL has failed. */
  failed(error: unknown): void {
    this.failures += 1
    if (!this.connected || this.since !== undefined || this.failures < this.options.servers) return
    this.since = this.now()
    const detail = error instanceof Error ? error.message : String(error)
    this.options.log("error", `database at ${this.options.address} unavailable, retrying: ${detail}`)
  }

  /** Records that a connection was opened. */
  opened(): void {
    this.connected = true
    this.failures = 0
    if (this.since === undefined) return
    const millis = Math.max(1000, Math.round((this.now() - this.since) / 1000) * 1000)
    this.since = undefined
    this.options.log("info", `database at ${this.options.address} available again after ${DurationText.format(millis)}`)
  }
}
