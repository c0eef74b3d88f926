import { isUtf8 } from "node:buffer"
import type { IncomingMessage } from "node:http"
import { GrowingBuffer } from "../GrowingBuffer.js"

// Bodies of webhooks, read by plain callbacks: thousands a second pass here, and nearly every one is a single chunk.

/** The most that one delivery may hold. */
export const mostBytes = 1024 * 1024

/** The most that all of them together may hold while they are read: whoever is first in line is not yet known to us. */
const mostHeld = 64 * 1024 * 1024

/** How long a body may take to arrive. */
const patienceMillis = 15_000

/** Deeper nesting is no delivery: it exhausts whoever walks through it. */
const mostDepth = 128

/** Why there is no body. `Gone`: nobody is there to be told. */
export type NoBody = "TooLarge" | "TooMuch" | "TooSlow" | "Gone"

interface Reading {
  readonly since: number
  readonly giveUp: () => void
}

/** Reads bodies within bounds of size, time and memory. */
export class BodyReader {
  private readonly readings = new Set<Reading>()
  private held = 0

  constructor(private readonly now: () => number) {}

  read(request: IncomingMessage, done: (body: Buffer | NoBody) => void): void {
    const gathered = new GrowingBuffer()
    const finish = (result: Buffer | NoBody) => {
      if (!this.readings.delete(reading)) return
      this.held -= gathered.bytes
      // What has ended says nothing more. What has not must not be heard any more, and without a listener it would flow on.
      if (typeof result === "string") request.off("data", take).pause()
      done(result)
    }
    const take = (chunk: Buffer) => {
      gathered.add(chunk)
      this.held += chunk.length
      if (gathered.bytes > mostBytes) finish("TooLarge")
      else if (this.held > mostHeld) finish("TooMuch")
    }
    const end = () => finish(gathered.whole())
    const gone = () => finish("Gone")
    const reading = { since: this.now(), giveUp: () => finish("TooSlow") }
    this.readings.add(reading)
    request.on("data", take).on("end", end).on("close", gone).on("error", gone)
  }

  /** Gives up on bodies that take too long. */
  readonly sweep = (): void => {
    const limit = this.now() - patienceMillis
    for (const reading of this.readings) if (reading.since < limit) reading.giveUp()
  }
}

const quote = 0x22
const backslash = 0x5c
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d

/** Whether JSON nests too deeply, told from its bytes: afterwards it is too late. */
const isTooDeep = (json: Buffer): boolean => {
  let depth = 0
  let inText = false
  for (let index = 0; index < json.length; index += 1) {
    const byte = json[index]
    if (inText) {
      if (byte === backslash) index += 1
      else if (byte === quote) inText = false
    } else if (byte === quote) inText = true
    else if (byte === openBrace || byte === openBracket) {
      depth += 1
      if (depth > mostDepth) return true
    } else if (byte === closeBrace || byte === closeBracket) depth -= 1
  }
  return false
}

/** A body as JSON, or why it is none. */
export const parse = (body: Buffer): { readonly value: unknown } | { readonly fault: string } => {
  // What opens more than it can close is no JSON.
  if (body.length > 2 * mostDepth && isTooDeep(body)) return { fault: `it nests deeper than ${mostDepth} levels` }
  if (!isUtf8(body)) return { fault: "it is not UTF-8" }
  try {
    return { value: JSON.parse(body.toString()) }
  } catch {
    return { fault: "it cannot be parsed" }
  }
}

const jsonType = /^application\/json *(?:; *charset *= *"?utf-8"? *)?$/i

/** Why a body is not read at all, as its headers tell; one without a type is given the benefit of the doubt. */
export const refusedType = ({ headers }: IncomingMessage): string | undefined => {
  const encoding = headers["content-encoding"]
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") return `encoded as ${encoding}`
  const type = headers["content-type"]
  return type === undefined || jsonType.test(type.trim()) ? undefined : type
}
