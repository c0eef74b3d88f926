/**
 * Collects bytes that arrive in pieces. Keeps the first piece without copying; then the buffer doubles, so a million
 * one-byte pieces cost neither a million objects nor a million copies.
 */
export class GrowingBuffer {
  bytes = 0
  private buffer: Buffer = Buffer.alloc(0)

  /** Allocated bytes, up to twice the bytes received. */
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

  /** The bytes received. Valid until the next `add`. */
  whole(): Buffer {
    return this.buffer.subarray(0, this.bytes)
  }
}
