import { Either } from "effect"
import * as HeadersParser from "multipasta/HeadersParser"
import { GrowingBuffer } from "../GrowingBuffer.js"

// Multipart bodies (RFC 7578), piece by piece. What is not decided yet is kept, and that is never more than a part's head
// or the length of a delimiter: content passes through as it comes. Where the pieces are cut makes no difference, down to
// single bytes.
//
//   preamble --delimiter--> delimited --CRLF--> head --empty line--> content --delimiter--> delimited ...
//                                     --"--"--> over

/** What a piece of a body holds. Content lies in the piece itself: it must be used before the next one is read. */
export type MultipartEvent =
  | { readonly _tag: "PartBegins"; readonly head: ReadonlyMap<string, string> }
  | { readonly _tag: "Content"; readonly bytes: Buffer }
  | { readonly _tag: "PartEnds" }

type State = "preamble" | "delimited" | "head" | "content" | "over"

const crlf = Buffer.from("\r\n")
const emptyLine = Buffer.from("\r\n\r\n")
const dash = "-".charCodeAt(0)

/** A file's name may be long; a head that is longer than this is not one. */
const mostHeadBytes = 16 * 1024
const mostPadding = 64

const headTooLong = "a part's head is too long"

/** `head` ends with its empty line. The parser reads each byte once, whatever the head holds. */
const parseHead = (head: Buffer): Either.Either<ReadonlyMap<string, string>, string> => {
  if (head.length === emptyLine.length) return Either.right(new Map())
  const result = HeadersParser.make()(head, crlf.length)
  if (result._tag === "Failure" && result.reason === "HeaderTooLarge") return Either.left(headTooLong)
  if (result._tag !== "Headers" || result.endPosition !== head.length) {
    return Either.left("a part's head is not made of headers")
  }
  // Of a header that is sent twice the last one counts.
  const last = (value: string | Array<string>) => (typeof value === "string" ? value : (value.at(-1) ?? ""))
  return Either.right(new Map(Object.entries(result.headers).map(([name, value]) => [name, last(value).trim()])))
}

/** The boundary that a content type names, or why there is none. */
export const boundaryOf = (contentType: string | undefined): Either.Either<string, string> => {
  const [, parameters] = /^multipart\/form-data *;(.*)$/is.exec(contentType?.trim() ?? "") ?? []
  if (parameters === undefined) return Either.left("its Content-Type is not multipart/form-data")
  const [, quoted, plain] = /(?:^|;) *boundary=(?:"([^"]*)"|([^;\s]*))/i.exec(parameters) ?? []
  const boundary = quoted ?? plain ?? ""
  return /^[\w'()+,./:=? -]{0,69}[\w'()+,./:=?-]$/.test(boundary)
    ? Either.right(boundary)
    : Either.left("its Content-Type names no boundary that can be one")
}

export class MultipartParser {
  private readonly delimiter: Buffer
  // As if a line had ended before the first delimiter, so that all are alike.
  private rest: Buffer = crlf
  private state: State = "preamble"
  // A head that is still arriving, and how far it was searched for its end: a head in single bytes is read once, too.
  private arriving = new GrowingBuffer()
  private searched = 0

  constructor(boundary: string) {
    this.delimiter = Buffer.from(`\r\n--${boundary}`)
  }

  /** Whether the last delimiter has come. */
  get isOver(): boolean {
    return this.state === "over"
  }

  /** What the next piece holds, or what is wrong with it. */
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
      // A copy: what is left must not keep the whole piece in memory.
      this.rest = Buffer.from(this.rest)
      if (this.state === "head") this.arriving.add(this.rest)
    }
  }

  /** Puts a piece to what is left. In the middle of a content only the seam is copied: it may be all that there is to do. */
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

  /** Goes on to the next state if what is there allows it; otherwise takes what it can and leaves the state as it is. */
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
    // The end may be the beginning of a delimiter.
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
    if (padding.length > mostPadding || padding.some((byte) => byte !== 0x20 && byte !== 0x09)) {
      return "its boundary stands where none can be"
    }
    if (end === -1) return
    // The line's end stays: before an empty head it is the first half of the empty line.
    this.rest = this.rest.subarray(end)
    this.state = "head"
  }

  private head(events: Array<MultipartEvent>): string | undefined {
    const end = this.rest.indexOf(emptyLine, this.searched)
    if (end > mostHeadBytes || (end === -1 && this.rest.length > mostHeadBytes)) return headTooLong
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
