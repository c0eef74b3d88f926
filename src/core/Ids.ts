import { Effect, FiberRef, Random, Schema } from "effect"
import * as CellTag from "./CellTag.js"
import type * as Id from "./Id.js"

export const JobId = Schema.UUID.pipe(Schema.brand("JobId")) as unknown as Schema.Schema<JobId, string>
/** Id of a job. The client generates it before it sends the job. */
export type JobId = Id.JobId

/**
 * Fencing token that a claim writes to its jobs. It is never reused, so a stale run cannot write to a job that was
 * claimed again.
 */
export const Lease = Schema.UUID.pipe(Schema.brand("Lease"))
export type Lease = typeof Lease.Type

export const BatchId = Schema.UUID.pipe(Schema.brand("BatchId")) as unknown as Schema.Schema<BatchId, string>
/** Id of a batch of jobs. */
export type BatchId = Id.BatchId

/** Id of a process. A restart gets a new one. */
export const PodId = Schema.UUID.pipe(Schema.brand("PodId"))
export type PodId = typeof PodId.Type

/** A pod without a label is shown by the end of its id, which is random; the start is the same for pods of one day. */
export const shortPod = (id: string): string => id.slice(-8)

/** Id of an uploaded file. */
export const UploadId = Schema.UUID.pipe(Schema.brand("UploadId"))
export type UploadId = typeof UploadId.Type

/** Id of a workspace's token, not its secret. */
export const TokenId = Schema.UUID.pipe(Schema.brand("TokenId"))
export type TokenId = typeof TokenId.Type

/** Id of a saved job filter. */
export const ViewId = Schema.UUID.pipe(Schema.brand("ViewId"))
export type ViewId = typeof ViewId.Type

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** The id before all others. */
export const zeroId = "00000000-0000-0000-0000-000000000000"

/** Whether the text is a lower-case UUID. */
export const isId = (text: string): boolean => uuidPattern.test(text)

/** Generates unique ids that sort by creation time, even thousands within one millisecond. */
export interface IdGenerator {
  readonly job: (millis: number) => JobId
  /** Like `job`, and also writes the 16 bytes of the id at the offset. */
  readonly jobInto: (millis: number, bytes: DataView, offset: number) => JobId
  readonly lease: (millis: number) => Lease
  readonly batch: (millis: number) => BatchId
  readonly pod: (millis: number) => PodId
  readonly upload: (millis: number) => UploadId
  readonly token: (millis: number) => TokenId
  readonly view: (millis: number) => ViewId
  /** An unbranded id. */
  readonly plain: (millis: number) => string
}

/** The sfc32 generator: fast, and deterministic for a seed, so that a replayed test generates the same ids. */
const randomWords = (seed: readonly [number, number, number]) => {
  let [a, b, c] = seed
  let counter = 1
  return (): number => {
    const word = (((a + b) | 0) + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (((c << 21) | (c >>> 11)) + word) | 0
    return word >>> 0
  }
}

/** Character codes of the hex digits. */
const digits = Uint8Array.from("0123456789abcdef", (digit) => digit.charCodeAt(0))
const dash = 45

/** The character code of the hex digit in the four bits at `shift`. */
const digit = (word: number, shift: number): number => digits[(word >>> shift) & 0xf] as number

/** 2^32, to split a 48-bit timestamp. */
const word = 0x1_0000_0000

/** UUID version 7: 48 bits of time, 12 bits of sequence within the millisecond, 62 random bits: 12 of them the tag, if any. */
const uuidV7 = (random: () => number, tag: number | undefined) => {
  const kept = tag === undefined ? -1 : ~(0xfff << 18)
  const tagged = tag === undefined ? 0 : tag << 18
  let last = 0
  let sequence = 0
  /** Character codes of the hex digits of `timeOf`. */
  const time = new Uint8Array(12)
  let timeOf = -1
  const code = (place: number): number => time[place] as number
  return (millis: number, bytes?: DataView, offset = 0): string => {
    // Keeps ids increasing when the clock does not advance. When the 12-bit sequence overflows, the timestamp moves
    // ahead of the clock.
    const instant = Math.floor(millis)
    if (instant > last) {
      last = instant
      sequence = random() & 0x1ff
    } else if (++sequence > 0xfff) {
      last += 1
      sequence = 0
    }
    if (timeOf !== last) {
      timeOf = last
      for (let place = 0; place < 4; place += 1) time[place] = digit(last / word, 12 - 4 * place)
      for (let place = 0; place < 8; place += 1) time[4 + place] = digit(last % word, 28 - 4 * place)
    }
    const x = ((random() & kept) | tagged) >>> 0
    const y = random()
    if (bytes !== undefined) {
      bytes.setUint16(offset, last / word)
      bytes.setUint32(offset + 2, last % word)
      bytes.setUint16(offset + 6, 0x7000 | sequence)
      bytes.setUint32(offset + 8, 0x8000_0000 | (x >>> 2))
      bytes.setUint32(offset + 12, y)
    }
    // Built from character codes: string slices would allocate an object each, and a bulk insert makes thousands of ids.
    // biome-ignore format: one line per group of the id
    return String.fromCharCode(
      code(0), code(1), code(2), code(3), code(4), code(5), code(6), code(7), dash,
      code(8), code(9), code(10), code(11), dash,
      0x37, digit(sequence, 8), digit(sequence, 4), digit(sequence, 0), dash,
      digits[0x8 | (x >>> 30)] as number, digit(x, 26), digit(x, 22), digit(x, 18), dash,
      digit(x, 14), digit(x, 10), digit(x, 6), digit(x, 2), digit(y, 28), digit(y, 24),
      digit(y, 20), digit(y, 16), digit(y, 12), digit(y, 8), digit(y, 4), digit(y, 0)
    )
  }
}

/** Returns the smallest id that can be generated at this instant or later. */
export const floorOf = (millis: number): string => {
  const time = Math.max(0, Math.floor(millis)).toString(16).padStart(12, "0")
  return `${time.slice(0, 8)}-${time.slice(8)}-0000-0000-000000000000`
}

/** Returns the creation time of an id in epoch milliseconds. */
export const millisOf = (id: string): number => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)

/** Creates a generator seeded from Effect's Random. Its ids carry the cell whose services are being built. */
export const makeGenerator: Effect.Effect<IdGenerator> = Effect.gen(function* () {
  const word = Random.nextIntBetween(0, 0xffff_ffff)
  const random = randomWords([yield* word, yield* word, yield* word])
  for (let round = 0; round < 12; round += 1) random()
  const next = uuidV7(random, (yield* FiberRef.get(CellTag.current))?.tag)
  return {
    job: (millis) => next(millis) as JobId,
    jobInto: (millis, bytes, offset) => next(millis, bytes, offset) as JobId,
    lease: (millis) => next(millis) as Lease,
    batch: (millis) => next(millis) as BatchId,
    pod: (millis) => next(millis) as PodId,
    upload: (millis) => next(millis) as UploadId,
    token: (millis) => next(millis) as TokenId,
    view: (millis) => next(millis) as ViewId,
    plain: next
  }
})

/** Number of a leader's term. It only increases, so it serves as the fencing token of the leader's writes. */
export const Term = Schema.Int.pipe(Schema.brand("Term"))
export type Term = typeof Term.Type

/** Name of a workspace that fetches files. Safe in URLs, file names and logs. */
export const Workspace = Schema.String.pipe(
  Schema.pattern(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/),
  Schema.brand("Workspace")
)
export type Workspace = typeof Workspace.Type

/** The rule for workspace names. The caller puts the rejected name in front. */
export const workspaceRule = "must be 1 to 64 letters, digits, _, . or -, and start with a letter or digit"
