/**
 * Bytes that arrive in pieces. The first piece is kept as it is; after that the buffer doubles, so a million pieces of one
 * byte cost neither a million objects nor a copy each.
 */
export class GrowingBuffer {
  bytes = 0
  private buffer: Buffer = Buffer.alloc(0)

  /** How much memory it holds, which may be twice what has arrived. */
  get capacity(): number {
    return this.buffer.length
  }

  add(piece: Buffer): void {
    const needed = this.bytes + piece.length
    if (this.bytes === 0) this.buffer = piece
    else {
      if (needed > this.buffer.length) {
        const grown = Buffer.allocUnsafe(Math.max(needed, 2 * this.buffer.length))
        this.buffer.copy(grown, 0, 0, this.bytes)
        this.buffer = grown
      }
      piece.copy(this.buffer, this.bytes)
    }
    this.bytes = needed
  }

  /** What has arrived. Valid until the next `add`. */
  whole(): Buffer {
    return this.buffer.subarray(0, this.bytes)
  }
}
