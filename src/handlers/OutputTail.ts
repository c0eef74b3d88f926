/** Prefix of a truncated tail. */
const cutMark = "…"

/** Keeps the last bytes of a stream in bounded memory. */
export class OutputTail {
  private chunks: Array<Buffer> = []
  private kept = 0
  /** Total bytes received. */
  bytes = 0

  constructor(private readonly most: number) {}

  readonly add = (chunk: Buffer): void => {
    this.bytes += chunk.length
    // Copy the end of a large chunk: a slice would keep the whole chunk in memory.
    const piece = chunk.length > this.most ? Buffer.from(chunk.subarray(-this.most)) : chunk
    this.chunks.push(piece)
    this.kept += piece.length
    // Drop whole chunks only, so up to one extra chunk is kept; `text` cuts it.
    for (
      let first = this.chunks[0];
      first !== undefined && this.kept - first.length >= this.most;
      first = this.chunks[0]
    ) {
      this.chunks.shift()
      this.kept -= first.length
    }
  }

  /** Returns the tail as text that PostgreSQL can store and that takes at most `maxJsonBytes` as JSON. */
  text(maxJsonBytes: number): string {
    const all = Buffer.concat(this.chunks)
    const end = all.subarray(Math.max(0, all.length - this.most))
    const cut = this.bytes > end.length
    const text = (cut ? wholeCharacters(end) : end).toString("utf8").replaceAll("\u0000", "\ufffd")
    const fitting = endFitting(text, maxJsonBytes - cutMark.length * 4)
    return cut || fitting.length < text.length ? `${cutMark}${fitting}` : fitting
  }
}

/** Drops the rest of a UTF-8 character whose first bytes were cut off. */
const wholeCharacters = (bytes: Buffer): Buffer => {
  let from = 0
  while (from < 4 && ((bytes[from] ?? 0) & 0xc0) === 0x80) from += 1
  return bytes.subarray(from)
}

/** Returns the longest tail that takes at most `maxBytes` as JSON, where a control character takes six bytes. */
const endFitting = (text: string, maxBytes: number): string => {
  let rest = text
  for (;;) {
    const size = Buffer.byteLength(JSON.stringify(rest))
    if (size <= maxBytes) return rest
    const from = Math.max(1, Math.ceil(rest.length * (1 - maxBytes / size)))
    // Do not split a surrogate pair.
    rest = rest.slice(/^[\udc00-\udfff]/.test(rest.slice(from)) ? from + 1 : from)
  }
}
