import { Either } from "effect"

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

const parseHead = (text: string): Either.Either<ReadonlyMap<string, string>, string> => {
  const head = new Map<string, string>()
  for (const line of text.split("\r\n").filter((line) => line !== "")) {
    const [, name, value] = /^([!#$%&'*+.^_`|~\w-]+):[ \t]*(.*?)[ \t]*$/su.exec(line) ?? []
    if (name === undefined || value === undefined) return Either.left("a part's head is not made of headers")
    head.set(name.toLowerCase(), value)
  }
  return Either.right(head)
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
    // A copy: what is left must not keep the whole piece in memory.
    this.rest = this.state === "over" ? Buffer.alloc(0) : Buffer.from(this.rest)
    return Either.right(events)
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
    this.rest = this.rest.length === 0 ? piece : Buffer.concat([this.rest, piece])
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
    const settled = found === -1 ? Math.max(0, this.rest.length - this.delimiter.length + 1) : found
    if (isContent && settled > 0) events.push({ _tag: "Content", bytes: this.rest.subarray(0, settled) })
    if (found === -1) {
      this.rest = this.rest.subarray(settled)
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
    const end = this.rest.indexOf(emptyLine)
    if (end > mostHeadBytes || (end === -1 && this.rest.length > mostHeadBytes)) return "a part's head is too long"
    if (end === -1) return
    const head = parseHead(this.rest.subarray(0, end).toString("utf8"))
    if (Either.isLeft(head)) return head.left
    events.push({ _tag: "PartBegins", head: head.right })
    this.rest = this.rest.subarray(end + emptyLine.length)
    this.state = "content"
  }
}
