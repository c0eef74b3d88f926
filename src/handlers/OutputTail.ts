/** The end of a text that was longer begins with this. */
const cutMark = "…"

/** The last bytes of what a process writes, however much that is. */
export class OutputTail {
  private chunks: Array<Buffer> = []
  private kept = 0
  /** Everything that was written. */
  bytes = 0

  constructor(private readonly most: number) {}

  readonly add = (chunk: Buffer): void => {
    this.bytes += chunk.length
    // A copy of the end of a large chunk: the slice alone would keep the whole of it in memory.
    const piece = chunk.length > this.most ? Buffer.from(chunk.subarray(-this.most)) : chunk
    this.chunks.push(piece)
    this.kept += piece.length
    // Whole chunks only; one too many costs little, and most processes write in chunks of one size.
    for (
      let first = this.chunks[0];
      first !== undefined && this.kept - first.length >= this.most;
      first = this.chunks[0]
    ) {
      this.chunks.shift()
      this.kept -= first.length
    }
  }

  /** As text that PostgreSQL can store, in at most so many bytes of JSON. */
  text(mostJsonBytes: number): string {
    const all = Buffer.concat(this.chunks)
    const end = all.subarray(Math.max(0, all.length - this.most))
    const cut = this.bytes > end.length
    const text = (cut ? wholeCharacters(end) : end).toString("utf8").replaceAll("\u0000", "\ufffd")
    const fitting = endFitting(text, mostJsonBytes - cutMark.length * 4)
    return cut || fitting.length < text.length ? `${cutMark}${fitting}` : fitting
  }
}

/** Without the rest of a character whose beginning was cut off. */
const wholeCharacters = (bytes: Buffer): Buffer => {
  let from = 0
  while (from < 4 && ((bytes[from] ?? 0) & 0xc0) === 0x80) from += 1
  return bytes.subarray(from)
}

/** The end of a text that takes at most so many bytes as JSON, where a control character takes six. */
const endFitting = (text: string, mostBytes: number): string => {
  let rest = text
  for (;;) {
    const size = Buffer.byteLength(JSON.stringify(rest))
    if (size <= mostBytes) return rest
    const from = Math.max(1, Math.ceil(rest.length * (1 - mostBytes / size)))
    // Not in the middle of a character that takes two.
    rest = rest.slice(/^[\udc00-\udfff]/.test(rest.slice(from)) ? from + 1 : from)
  }
}
