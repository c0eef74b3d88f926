import { isUtf8 } from "node:buffer"
import type { IncomingMessage } from "node:http"
import { GrowingBuffer } from "../Body.js"

// Reads webhook bodies with plain callbacks: thousands arrive per second, and nearly all are a single chunk.

/** Maximum size of a delivery. */
export const maxDeliveryBytes = 1024 * 1024

/** Maximum memory of all incomplete bodies of one reader. */
const maxHeldBytes = 64 * 1024 * 1024

/** Minimum memory charged per body, for its connection and request. */
const minBodyWeight = 16 * 1024

/** Timeout for receiving a body. */
const timeoutMillis = 15_000

/** Minimum average rate of a body after a grace period, which is long enough for a retransmission. */
const minBodyRate = { graceMillis: 5_000, bytesPerSecond: 4 * 1024 }

/** Maximum nesting depth. Deeper JSON could overflow the stack of recursive code. */
const maxNesting = 128

/** Why a body could not be read. `Gone`: the sender disconnected. */
export type NoBody = "TooLarge" | "TooMuch" | "TooSlow" | "Gone"

/** The bot or source of a body, and the client address. */
export interface Sender {
  readonly hook: string
  /** A function, because it is needed only when memory is full, and computing it costs as much as parsing a small body. */
  readonly address: () => string
}

interface Reading {
  readonly sender: Sender
  readonly since: number
  /** The only chunk so far, or all chunks of a body that has several. */
  body: Buffer | GrowingBuffer
  /** Order in which the last bytes of all bodies arrived. */
  lastData: number
  weight: number
  readonly stop: (why: NoBody) => void
}

const none = Buffer.alloc(0)

/** For the error of a broken connection: without a listener it could end the process. */
const closeFollows = () => {}

const bytesOf = (body: Buffer | GrowingBuffer) => (body instanceof GrowingBuffer ? body.bytes : body.length)

/** Groups readings by `nameOf` and returns the group that uses the most memory. */
const heaviest = (readings: Iterable<Reading>, nameOf: (sender: Sender) => string): ReadonlyArray<Reading> => {
  const groups = new Map<string, { weight: number; readonly readings: Array<Reading> }>()
  let heaviest = { weight: 0, readings: [] as Reading[] }
  for (const reading of readings) {
    const name = nameOf(reading.sender)
    const group = groups.get(name) ?? { weight: 0, readings: [] }
    groups.set(name, group)
    group.weight += reading.weight
    group.readings.push(reading)
    if (group.weight > heaviest.weight) heaviest = group
  }
  return heaviest.readings
}

/**
 * Reads bodies within limits of size, time and memory. When memory is full, a new body is still accepted: the hook that
 * uses the most memory, and within it the address that uses the most, loses the body that has been silent for longest.
 * So a flood to one hook cannot block the others.
 */
export class BodyReader {
  private readonly readings = new Set<Reading>()
  private held = 0
  private arrived = 0

  constructor(private readonly now: () => number) {}

  read(request: IncomingMessage, sender: Sender, done: (body: Buffer | NoBody) => void): void {
    const finish = (result: Buffer | NoBody) => {
      if (!this.readings.delete(reading)) return
      this.held -= reading.weight
      // Stop listening to an incomplete body, and pause it: without a listener, node would read and discard the rest.
      if (typeof result === "string") request.off("data", take).pause()
      done(result)
    }
    const take = (chunk: Buffer) => {
      this.add(reading, chunk)
      if (bytesOf(reading.body) > maxDeliveryBytes) finish("TooLarge")
      else this.makeRoom()
    }
    const end = () => finish(reading.body instanceof GrowingBuffer ? reading.body.whole() : reading.body)
    const reading: Reading = {
      sender,
      since: this.now(),
      body: none,
      lastData: ++this.arrived,
      weight: minBodyWeight,
      stop: finish
    }
    this.readings.add(reading)
    this.held += minBodyWeight
    request
      .on("data", take)
      .on("end", end)
      .on("close", () => finish("Gone"))
      .on("error", closeFollows)
    this.makeRoom()
  }

  /** Stops bodies that take too long or arrive too slowly. */
  readonly sweep = (): void => {
    const now = this.now()
    for (const { body, since, stop } of this.readings) {
      const elapsed = now - since
      const due = ((elapsed - minBodyRate.graceMillis) / 1000) * minBodyRate.bytesPerSecond
      if (elapsed > timeoutMillis || bytesOf(body) < due) stop("TooSlow")
    }
  }

  private add(reading: Reading, chunk: Buffer): void {
    reading.lastData = ++this.arrived
    if (reading.body === none) reading.body = chunk
    else {
      if (!(reading.body instanceof GrowingBuffer)) reading.body = GrowingBuffer.from(reading.body)
      reading.body.add(chunk)
    }
    const capacity = reading.body instanceof GrowingBuffer ? reading.body.capacity : reading.body.length
    const weight = capacity > minBodyWeight ? capacity : minBodyWeight
    this.held += weight - reading.weight
    reading.weight = weight
  }

  /** Frees an eighth of the memory at once, so that not every chunk scans all bodies. */
  private makeRoom(): void {
    if (this.held <= maxHeldBytes) return
    while (this.held > maxHeldBytes - maxHeldBytes / 8) {
      const ofHook = heaviest(this.readings, ({ hook }) => hook)
      const [first, ...others] = heaviest(ofHook, ({ address }) => address())
      if (first === undefined) return
      others.reduce((silent, next) => (next.lastData < silent.lastData ? next : silent), first).stop("TooMuch")
    }
  }
}

const quote = 0x22
const backslash = 0x5c
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d

/** Whether JSON is nested too deeply. Checks the bytes before parsing. */
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
      if (depth > maxNesting) return true
    } else if (byte === closeBrace || byte === closeBracket) depth -= 1
  }
  return false
}

/** Whether JSON has so few arrays and objects that it cannot be nested too deeply. Much cheaper than counting levels. */
const isFlat = (json: Buffer): boolean => {
  let opened = 0
  for (const open of [openBrace, openBracket]) {
    for (let at = json.indexOf(open); at !== -1; at = json.indexOf(open, at + 1)) {
      opened += 1
      if (opened > maxNesting) return false
    }
  }
  return true
}

/** A body that is valid JSON, and its text. */
export interface Parsed {
  readonly value: unknown
  readonly text: string
}

/** Parses a body as JSON, or returns why it is invalid. */
export const parse = (body: Buffer): Parsed | { readonly fault: string } => {
  // Short bodies skip the check: valid JSON needs two bytes per level.
  if (body.length > 2 * maxNesting && !isFlat(body) && isTooDeep(body)) {
    return { fault: `it is nested deeper than ${maxNesting} levels` }
  }
  if (!isUtf8(body)) return { fault: "it is not valid UTF-8" }
  const text = body.toString()
  try {
    return { value: JSON.parse(text), text }
  } catch {
    return { fault: "parsing failed" }
  }
}
