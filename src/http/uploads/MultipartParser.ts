import { Either } from "effect"
import * as HeadersParser from "multipasta/HeadersParser"
import { GrowingBuffer } from "../Body.js"

// Streaming parser of multipart bodies (RFC 7578). Buffers at most a part's headers or one delimiter; content passes
// through as it arrives. The result does not depend on how the body is split into pieces.
//
//   preamble --delimiter--> delimited --CRLF--> head --empty line--> content --delimiter--> delimited ...
//                                     --"--"--> over

/** Parsed events. `bytes` refers to the piece's memory: use it before the next `write`. */
export type MultipartEvent =
  | { readonly _tag: "PartBegins"; readonly head: ReadonlyMap<string, string> }
  | { readonly _tag: "Content"; readonly bytes: Buffer }
  | { readonly _tag: "PartEnds" }

type State = "preamble" | "delimited" | "head" | "content" | "over"

const crlf = Buffer.from("\r\n")
const emptyLine = Buffer.from("\r\n\r\n")
const dash = "-".charCodeAt(0)

/** Maximum size of a part's headers. */
const maxHeaderBytes = 16 * 1024
const maxPaddingBytes = 64

const headTooLong = "the headers of a part are too long"

/** Parses a part's headers in linear time. `head` includes the final empty line. */
const parseHead = (head: Buffer): Either.Either<ReadonlyMap<string, string>, string> => {
  if (head.length === emptyLine.length) return Either.right(new Map())
  const result = HeadersParser.make()(head, crlf.length)
  if (result._tag === "Failure" && result.reason === "HeaderTooLarge") return Either.left(headTooLong)
  if (result._tag !== "Headers" || result.endPosition !== head.length) {
    return Either.left("the headers of a part are malformed")
  }
  // If a header is repeated, the last one wins.
  const last = (value: string | Array<string>) => (typeof value === "string" ? value : (value.at(-1) ?? ""))
  return Either.right(new Map(Object.entries(result.headers).map(([name, value]) => [name, last(value).trim()])))
}

/** Returns the boundary of a Content-Type, or why it has none. */
export const boundaryOf = (contentType: string | undefined): Either.Either<string, string> => {
  const [, parameters] = /^multipart\/form-data *;(.*)$/is.exec(contentType?.trim() ?? "") ?? []
  if (parameters === undefined) return Either.left("its Content-Type is not multipart/form-data")
  const [, quoted, plain] = /(?:^|;) *boundary=(?:"([^"]*)"|([^;\s]*))/i.exec(parameters) ?? []
  const boundary = quoted ?? plain ?? ""
  return /^[\w'()+,./:=? -]{0,69}[\w'()+,./:=?-]$/.test(boundary)
    ? Either.right(boundary)
    : Either.left("its Content-Type has no valid boundary")
}

export class MultipartParser {
  private readonly delimiter: Buffer
  // Starts with a line end, so the first delimiter is parsed like all others.
  private rest: Buffer = crlf
  private state: State = "preamble"
  // Incomplete part headers, and how far they were searched, so headers that arrive byte by byte are scanned only once.
  private arriving = new GrowingBuffer()
  private searched = 0

  constructor(boundary: string) {
    this.delimiter = Buffer.from(`\r\n--${boundary}`)
  }

  /** Whether the closing delimiter was read. */
  get isOver(): boolean {
    return this.state === "over"
  }

  /** Parses the next piece. Returns its events, or what is wrong with the body. */
  write(piece: Buffer): Either.Either<ReadonlyArray<MultipartEvent>, string> {
    const events: Array<MultipartEvent> = []
    this.join(piece, events)
    for (;;) {
      const before = this.state
      const fault = this.step(events)
      if (fault !== undefined) return Either.left(fault)
      if (this.state === before || this.state === "over") break
    }
    this.keepRest()
    return Either.right(events)
  }

  private keepRest(): void {
    if (this.state === "over") this.rest = Buffer.alloc(0)
    else if (this.state !== "head" || this.arriving.bytes === 0) {
      // Copy the remainder, so it does not keep the whole piece in memory.
      this.rest = Buffer.from(this.rest)
      if (this.state === "head") this.arriving.add(this.rest)
    }
  }

  /**
   * Appends a piece to the remainder. Inside content, copies only the bytes around the seam, where a delimiter may be
   * split.
   */
  private join(piece: Buffer, events: Array<MultipartEvent>): void {
    if (this.state === "content" && this.rest.length > 0) {
      const seam = Buffer.concat([this.rest, piece.subarray(0, this.delimiter.length - 1)])
      if (piece.length >= this.delimiter.length && !seam.includes(this.delimiter)) {
        events.push({ _tag: "Content", bytes: this.rest })
        this.rest = piece
        return
      }
    }
    if (this.arriving.bytes > 0) {
      this.arriving.add(piece)
      this.rest = this.arriving.whole()
    } else this.rest = this.rest.length === 0 ? piece : Buffer.concat([this.rest, piece])
  }

  /** Advances to the next state if enough bytes are available; otherwise consumes what it can. */
  private step(events: Array<MultipartEvent>): string | undefined {
    switch (this.state) {
      case "preamble":
      case "content":
        return this.upToDelimiter(events)
      case "delimited":
        return this.afterDelimiter()
      case "head":
        return this.head(events)
      case "over":
        return undefined
    }
  }

  private upToDelimiter(events: Array<MultipartEvent>): undefined {
    const isContent = this.state === "content"
    const found = this.rest.indexOf(this.delimiter)
    // The last bytes may be the start of a delimiter.
    const decided = found === -1 ? Math.max(0, this.rest.length - this.delimiter.length + 1) : found
    if (isContent && decided > 0) events.push({ _tag: "Content", bytes: this.rest.subarray(0, decided) })
    if (found === -1) {
      this.rest = this.rest.subarray(decided)
      return
    }
    if (isContent) events.push({ _tag: "PartEnds" })
    this.rest = this.rest.subarray(found + this.delimiter.length)
    this.state = "delimited"
  }

  private afterDelimiter(): string | undefined {
    if (this.rest.length < 2) return
    if (this.rest[0] === dash && this.rest[1] === dash) {
      this.state = "over"
      return
    }
    const end = this.rest.indexOf(crlf)
    const padding = this.rest.subarray(0, end === -1 ? Math.max(0, this.rest.length - 1) : end)
    if (padding.length > maxPaddingBytes || padding.some((byte) => byte !== 0x20 && byte !== 0x09)) {
      return "a boundary is followed by unexpected characters"
    }
    if (end === -1) return
    // Keep the CRLF: if the part has no headers, it is the first half of the empty line.
    this.rest = this.rest.subarray(end)
    this.state = "head"
  }

  private head(events: Array<MultipartEvent>): string | undefined {
    const end = this.rest.indexOf(emptyLine, this.searched)
    if (end > maxHeaderBytes || (end === -1 && this.rest.length > maxHeaderBytes)) return headTooLong
    if (end === -1) {
      this.searched = Math.max(0, this.rest.length - emptyLine.length + 1)
      return
    }
    const head = parseHead(this.rest.subarray(0, end + emptyLine.length))
    if (Either.isLeft(head)) return head.left
    events.push({ _tag: "PartBegins", head: head.right })
    this.rest = this.rest.subarray(end + emptyLine.length)
    this.arriving = new GrowingBuffer()
    this.searched = 0
    this.state = "content"
  }
}
