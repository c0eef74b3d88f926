import { Effect, Random, Schema } from "effect"

/** A job, from its birth on the client to its purge. */
export const JobId = Schema.UUID.pipe(Schema.brand("JobId"))
export type JobId = typeof JobId.Type

/** What a claim writes on the jobs it takes; never repeated, so it fences every later write about that run. */
export const Lease = Schema.UUID.pipe(Schema.brand("Lease"))
export type Lease = typeof Lease.Type

/** One boot of one process. */
export const PodId = Schema.UUID.pipe(Schema.brand("PodId"))
export type PodId = typeof PodId.Type

/** A file that waits for a workspace. */
export const UploadId = Schema.UUID.pipe(Schema.brand("UploadId"))
export type UploadId = typeof UploadId.Type

/** A workspace's token: which one it is, not what it is. */
export const TokenId = Schema.UUID.pipe(Schema.brand("TokenId"))
export type TokenId = typeof TokenId.Type

/** Filters of jobs that somebody gave a name. */
export const ViewId = Schema.UUID.pipe(Schema.brand("ViewId"))
export type ViewId = typeof ViewId.Type

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/** Whether a text is an id in the form in which we write them. */
export const isId = (text: string): boolean => uuidPattern.test(text)

/** Makes ids that sort by the time they were made, thousands in a millisecond without a repeat. */
export interface IdGenerator {
  readonly job: (millis: number) => JobId
  readonly lease: (millis: number) => Lease
  readonly pod: (millis: number) => PodId
  readonly upload: (millis: number) => UploadId
  readonly token: (millis: number) => TokenId
  readonly view: (millis: number) => ViewId
  /** For what has no sort of id of its own. */
  readonly plain: (millis: number) => string
}

const hex = Array.from({ length: 4096 }, (_, bits) => bits.toString(16).padStart(3, "0"))
/** Twelve bits of a word, as text. */
const text = (word: number, shift: number) => hex[(word >>> shift) & 0xfff] ?? ""

/** Small and fast (sfc32), and the same again for the same seed: a replayed test makes the same ids. */
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

const variants = ["8", "9", "a", "b"]

/** UUID version 7: 48 bits of time, 12 of sequence within the millisecond, 62 of chance. */
const uuidV7 = (random: () => number) => {
  let last = 0
  let sequence = 0
  let head = ""
  let headOf = -1
  return (millis: number): string => {
    // A clock that stands still or a burst within one millisecond still gives rising ids; past 4095 time is borrowed.
    if (millis > last) {
      last = millis
      sequence = random() & 0x1ff
    } else if (++sequence > 0xfff) {
      last += 1
      sequence = 0
    }
    if (headOf !== last) {
      headOf = last
      const time = Math.floor(last).toString(16).padStart(12, "0")
      head = `${time.slice(0, 8)}-${time.slice(8)}-7`
    }
    const x = random()
    const y = random()
    // In parts of a few characters: each longer piece would be an object of its own, and a bulk makes thousands.
    const middle = `${text(sequence, 0)}-${variants[x >>> 30]}${text(x, 18)}-`
    return head + middle + (text(x, 6) + text(y, 20) + text(y, 8) + text((y << 4) | (x & 0xf), 0))
  }
}

/** The least id that can have been made at this instant or later. */
export const floorOf = (millis: number): string => {
  const time = Math.max(0, Math.floor(millis)).toString(16).padStart(12, "0")
  return `${time.slice(0, 8)}-${time.slice(8)}-0000-0000-000000000000`
}

/** When an id was made, in epoch milliseconds. */
export const millisOf = (id: string): number => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)

/** A generator seeded from Effect's Random. */
export const makeGenerator: Effect.Effect<IdGenerator> = Effect.gen(function* () {
  const word = Random.nextIntBetween(0, 0xffff_ffff)
  const random = randomWords([yield* word, yield* word, yield* word])
  for (let round = 0; round < 12; round += 1) random()
  const next = uuidV7(random)
  return {
    job: (millis) => next(millis) as JobId,
    lease: (millis) => next(millis) as Lease,
    pod: (millis) => next(millis) as PodId,
    upload: (millis) => next(millis) as UploadId,
    token: (millis) => next(millis) as TokenId,
    view: (millis) => next(millis) as ViewId,
    plain: next
  }
})
