import { isUtf8 } from "node:buffer"
import type { IncomingMessage } from "node:http"
import { GrowingBuffer } from "../GrowingBuffer.js"

// Bodies of webhooks, read by plain callbacks: thousands a second pass here, and nearly every one is a single chunk.

/** The most that one delivery may hold. */
export const mostBytes = 1024 * 1024

/** The most that all bodies of one reader hold while they arrive. */
const mostHeld = 64 * 1024 * 1024

/** What a body counts at least, however little has come: its connection and its request are memory, too. */
const leastWeight = 16 * 1024

/** How long a body may take to arrive. */
const patienceMillis = 15_000

/** After the grace a body must have arrived at this rate, on average. A sender that retries a lost packet is within the grace. */
const leastRate = { graceMillis: 5_000, bytesPerSecond: 4 * 1024 }

/** Deeper nesting is no delivery: it exhausts whoever walks through it. */
const mostDepth = 128

/** Why there is no body. `Gone`: nobody is there to be told. */
export type NoBody = "TooLarge" | "TooMuch" | "TooSlow" | "Gone"

/** For whom a body is, and where it comes from. */
export interface Sender {
  readonly hook: string
  readonly address: string
}

interface Reading {
  readonly sender: Sender
  readonly since: number
  readonly body: GrowingBuffer
  /** When it last brought anything. */
  heardAt: number
  weight: number
  readonly stop: (why: NoBody) => void
}

const weightOf = ({ body }: Reading) => Math.max(leastWeight, body.capacity)

/** The readings of the name that weighs most, by how `nameOf` names them. */
const heaviest = (readings: Iterable<Reading>, nameOf: (sender: Sender) => string): ReadonlyArray<Reading> => {
  const groups = new Map<string, { weight: number; readonly readings: Array<Reading> }>()
  let most = { weight: 0, readings: [] as Reading[] }
  for (const reading of readings) {
    const name = nameOf(reading.sender)
    const group = groups.get(name) ?? { weight: 0, readings: [] }
    groups.set(name, group)
    group.weight += reading.weight
    group.readings.push(reading)
    if (group.weight > most.weight) most = group
  }
  return most.readings
}

/**
 * Reads bodies within bounds of size, time and memory. A new body is never refused because others hold the memory: of the
 * hook that holds most, the address that holds most loses the body that has brought nothing for longest.
 */
export class BodyReader {
  private readonly readings = new Set<Reading>()
  private held = 0

  constructor(private readonly now: () => number) {}

  read(request: IncomingMessage, sender: Sender, done: (body: Buffer | NoBody) => void): void {
    const body = new GrowingBuffer()
    const finish = (result: Buffer | NoBody) => {
      if (!this.readings.delete(reading)) return
      this.held -= reading.weight
      // What has ended says nothing more. What has not must not be heard any more, and without a listener it would flow on.
      if (typeof result === "string") request.off("data", take).pause()
      done(result)
    }
    const take = (chunk: Buffer) => {
      body.add(chunk)
      reading.heardAt = this.now()
      this.weigh(reading)
      if (body.bytes > mostBytes) finish("TooLarge")
      else this.makeRoom()
    }
    const end = () => finish(body.whole())
    const gone = () => finish("Gone")
    const since = this.now()
    const reading: Reading = { sender, since, body, heardAt: since, weight: 0, stop: finish }
    this.readings.add(reading)
    this.weigh(reading)
    request.on("data", take).on("end", end).on("close", gone).on("error", gone)
    this.makeRoom()
  }

  /** Stops bodies that take too long, or come too slowly. */
  readonly sweep = (): void => {
    const now = this.now()
    for (const { body, since, stop } of this.readings) {
      const elapsed = now - since
      const due = ((elapsed - leastRate.graceMillis) / 1000) * leastRate.bytesPerSecond
      if (elapsed > patienceMillis || body.bytes < due) stop("TooSlow")
    }
  }

  private weigh(reading: Reading): void {
    const weight = weightOf(reading)
    this.held += weight - reading.weight
    reading.weight = weight
  }

  /** An eighth at once, so that not every chunk looks through all bodies. */
  private makeRoom(): void {
    if (this.held <= mostHeld) return
    while (this.held > mostHeld - mostHeld / 8) {
      const ofHook = heaviest(this.readings, ({ hook }) => hook)
      const [first, ...others] = heaviest(ofHook, ({ address }) => address)
      if (first === undefined) return
      others.reduce((silent, next) => (next.heardAt < silent.heardAt ? next : silent), first).stop("TooMuch")
    }
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
    return { fault: "parsing failed" }
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
