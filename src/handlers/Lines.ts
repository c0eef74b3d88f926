const newline = 0x0a

/** Splits a byte stream into lines of bounded length. */
export class Lines {
  private rest: Array<Buffer> = []
  private held = 0

  constructor(
    private readonly maxBytes: number,
    private readonly onLine: (line: string) => void,
    /** Called when a line exceeds the limit. The line is dropped, and the lines after it are meaningless. */
    private readonly onTooLong: () => void
  ) {}

  readonly add = (chunk: Buffer): void => {
    let from = 0
    for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, from)) {
      this.keep(chunk.subarray(from, at))
      from = at + 1
      if (this.held > this.maxBytes) {
        this.overflow()
        return
      }
      const line = Buffer.concat(this.rest).toString("utf8")
      this.rest = []
      this.held = 0
      this.onLine(line.endsWith("\r") ? line.slice(0, -1) : line)
    }
    this.keep(chunk.subarray(from))
    if (this.held > this.maxBytes) this.overflow()
  }

  private keep(piece: Buffer): void {
    if (piece.length === 0) return
    this.rest.push(piece)
    this.held += piece.length
  }

  private overflow(): void {
    this.rest = []
    this.held = 0
    this.onTooLong()
  }
}
