import { Effect, Either, Runtime } from "effect"
import { jsonText } from "../core/Storable.js"
import type { StreamBatch, Streams } from "../queue/workflow/Streams.js"

/** Chunks that are collected before a writer waits, and their bytes. Half of that is stored without a pause. */
const most = { chunks: 1_000, bytes: 256 * 1024 }

/** Bytes of one batch. */
const batchBytes = 128 * 1024

/** A chunk that cannot be stored. Writing it again would fail again. */
export class ChunkRefused extends TypeError {}

/**
 * Writes the chunks of one generation of a stream. Collects those that arrive while a write is in progress, and during
 * the pace of the store after it: a model sends a token at a time, and each would otherwise be a transaction.
 */
export class StreamWriter {
  private texts: Array<string> = []
  /** Sizes of `texts`. */
  private sizes: Array<number> = []
  /** Chunks and bytes that are not being stored yet. */
  private open = { chunks: 0, bytes: 0 }
  private stored = { count: 0, bytes: 0 }
  private flushing: Promise<void> | undefined
  private isEnding = false
  private fault: { readonly error: unknown } | undefined
  private endPause: () => void = () => {}
  private whenRoom: Array<{ readonly resolve: () => void; readonly reject: (error: unknown) => void }> = []
  /** Chunks and bytes that were written. */
  count = 0
  bytes = 0

  constructor(
    private readonly name: string,
    readonly generation: number,
    private readonly streams: Pick<Streams, "limits" | "pace">,
    private readonly append: (batch: StreamBatch) => Promise<void>,
    private readonly runtime: Runtime.Runtime<never>
  ) {}

  /** Adds a chunk. Resolves when the next one may be written. Rejects if the chunk or an earlier one cannot be stored. */
  write(chunk: unknown): Promise<void> {
    const written = this.add(chunk)
    // The error is also thrown by `finish`: code that does not await it must not end the process.
    written.catch(() => {})
    return written
  }

  private async add(chunk: unknown): Promise<void> {
    if (this.fault !== undefined) throw this.fault.error
    if (this.isEnding)
      throw new ChunkRefused(
        `A chunk of "${this.name}" was written after its step ended. Await all writes in the step.`
      )
    const text = this.textOf(chunk)
    const size = Buffer.byteLength(text)
    const { streamBytes } = this.streams.limits
    if (this.bytes + size > streamBytes)
      throw this.refuse(
        `must have at most ${streamBytes} bytes. Store large data elsewhere, or raise STREAM_MAX_SIZE`,
        "The stream"
      )
    this.texts.push(text)
    this.sizes.push(size)
    this.count += 1
    this.bytes += size
    this.open.chunks += 1
    this.open.bytes += size
    this.flushing ??= this.flush()
    if (this.isFull(0.5)) this.endPause()
    if (this.isFull(1)) await new Promise<void>((resolve, reject) => this.whenRoom.push({ resolve, reject }))
  }

  private isFull(part: number): boolean {
    return this.open.chunks >= most.chunks * part || this.open.bytes >= most.bytes * part
  }

  /** Text is stored as it is, even with half a character at its end. Other values are JSON. */
  private textOf(chunk: unknown): string {
    const { chunkBytes } = this.streams.limits
    if (ArrayBuffer.isView(chunk) || chunk instanceof ArrayBuffer)
      throw this.refuse("must be text or a JSON value, got bytes. Decode them, or encode them as base64")
    if (typeof chunk !== "string")
      return Either.getOrThrowWith(jsonText(chunk, chunkBytes), (reason) => this.refuse(this.advised(reason)))
    const text = JSON.stringify(chunk)
    const size = text.length > chunkBytes / 3 ? Buffer.byteLength(text) : 0
    if (size > chunkBytes) throw this.refuse(this.advised(`must be at most ${chunkBytes} bytes as JSON, got ${size}`))
    return text
  }

  private advised(reason: string): string {
    return reason.includes("bytes as JSON") ? `${reason}. Split it, or raise STREAM_MAX_CHUNK` : reason
  }

  /** An error that `finish` throws too, so that a write that is not awaited does not fail silently. */
  private refuse(reason: string, what = "A chunk"): ChunkRefused {
    const error = new ChunkRefused(`${what} of "${this.name}" ${reason}.`)
    this.fault ??= { error }
    return error
  }

  private async flush(): Promise<void> {
    try {
      // Chunks that are written in one turn of the event loop are stored together.
      await new Promise(setImmediate)
      while (this.texts.length > 0) {
        await this.append(this.take())
        const waiting = this.isFull(0.5) ? [] : this.whenRoom.splice(0)
        for (const { resolve } of waiting) resolve()
        await this.pause()
      }
    } catch (error) {
      this.fault = { error }
      for (const { reject } of this.whenRoom.splice(0)) reject(error)
    }
    this.flushing = undefined
  }

  private take(): StreamBatch {
    let bytes = 0
    let count = 0
    for (const size of this.sizes) {
      if (count > 0 && bytes + size > batchBytes) break
      bytes += size
      count += 1
    }
    const text = `[${this.texts.slice(0, count).join(",")}]`
    this.texts = this.texts.slice(count)
    this.sizes = this.sizes.slice(count)
    const number = this.stored.count
    this.stored = { count: number + count, bytes: this.stored.bytes + bytes }
    this.open = { chunks: this.open.chunks - count, bytes: this.open.bytes - bytes }
    return { name: this.name, generation: this.generation, number, count, bytes: this.stored.bytes, text }
  }

  /** Waits for the pace of the store, unless the buffer is filling up or the stream ends. */
  private async pause(): Promise<void> {
    const { pace } = this.streams
    if (pace === 0 || this.isEnding || this.isFull(0.5)) return
    await new Promise<void>((resolve) => {
      const cancel = Runtime.runCallback(this.runtime)(Effect.sleep(pace), { onExit: () => resolve() })
      this.endPause = () => cancel()
    })
    this.endPause = () => {}
  }

  /** Stores the remaining chunks. Rejects if a chunk could not be stored. */
  async finish(): Promise<void> {
    this.isEnding = true
    this.endPause()
    await this.flushing
    if (this.fault !== undefined) throw this.fault.error
  }
}
