import type { IncomingMessage } from "node:http"
import { Duration, Effect, Either } from "effect"
import { steadyMillis } from "../../core/ChangeWatch.js"
import type { UploadId, Workspace } from "../../core/Ids.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { Draft, WholeDraft } from "../../uploads/Draft.js"
import * as Filename from "../../uploads/Filename.js"
import type { Storage } from "../../uploads/Storage.js"
import { stripMimeType } from "../../uploads/Upload.js"
import {
  type DraftLost,
  type InvalidUpload,
  QuotaExceeded,
  RequestTooLarge,
  type UploadTooLarge
} from "../../uploads/UploadErrors.js"
import type { UploadsConfig } from "../../uploads/UploadsConfig.js"
import * as Body from "../Body.js"
import { BadRequest, BodyTooLarge, RequestTimedOut } from "../RequestErrors.js"
import * as ContentDisposition from "./ContentDisposition.js"
import { type MultipartEvent, MultipartParser } from "./MultipartParser.js"

/** Name of the form field, and maximum number of files. */
const field = "files"
const maxFiles = 64

/** Maximum size of part headers and delimiters in a body. */
export const overheadBytes = 1024 * 1024

export type Refusal =
  | BadRequest
  | BodyTooLarge
  | RequestTimedOut
  | InvalidUpload
  | UploadTooLarge
  | RequestTooLarge
  | QuotaExceeded
  | DraftLost
  | DatabaseError

export const malformed = (reason: string) =>
  new BadRequest({ message: `The body is not a valid multipart form: ${reason}.` })

const misplaced = (reason: string, name: string) =>
  new BadRequest({
    message: `${reason} Send 1 to ${maxFiles} files in the field "${field}".`,
    field: name.slice(0, 64)
  })

export interface Reading {
  readonly storage: typeof Storage.Service
  readonly config: Pick<typeof UploadsConfig.Service, "maxRequest" | "quota" | "stallTimeout">
  readonly workspace: Workspace
  readonly boundary: string
  /** Bytes already stored for the workspace. */
  readonly kept: number
  /** Counts received bytes. Returns the total of all requests in progress for the workspace. */
  readonly onContent: (bytes: number) => number
  /** Called for every new draft, so that it can be discarded on failure. */
  readonly onBegun: (id: UploadId) => void
}

/** Returns a part's file name and MIME type. */
const factsOf = (head: ReadonlyMap<string, string>, before: number) => {
  const part = ContentDisposition.parse(head.get("content-disposition") ?? "")
  if (part === undefined) return Either.left(malformed("a part has no field name"))
  const { filename, name } = part
  if (name !== field) return Either.left(misplaced("The form has an unexpected field.", name))
  if (filename === undefined) return Either.left(misplaced("A part has no filename.", name))
  if (before >= maxFiles) return Either.left(misplaced("The form has too many files.", name))
  const mimetype = stripMimeType(head.get("content-type") ?? "")
  return Either.right({ filename: Filename.original(filename), mimetype })
}

/** Stores the files of one body. Events must arrive in the body's order. */
const makeFiles = ({ config, kept, onBegun, onContent, storage, workspace }: Reading) => {
  const finished: Array<WholeDraft> = []
  let current: { readonly draft: Draft; readonly filename: string } | undefined
  let size = 0

  const begin = (head: ReadonlyMap<string, string>) =>
    Effect.gen(function* () {
      const facts = yield* factsOf(head, finished.length)
      const draft = yield* storage.begin(facts, finished.length)
      onBegun(draft.id)
      current = { draft, filename: facts.filename }
    })

  const refusalOf = (filename: string, others: number): RequestTooLarge | QuotaExceeded | undefined => {
    if (size > config.maxRequest) return new RequestTooLarge({ filename, size, max: config.maxRequest })
    // Count concurrent uploads of the workspace before they are published: their chunks already take space in the
    // database.
    return kept + others + size > config.quota
      ? new QuotaExceeded({ workspace, kept: kept + others, size, max: config.quota })
      : undefined
  }

  // Runs for every piece of a body, hence no generator.
  const append = (bytes: Buffer) =>
    Effect.suspend((): Effect.Effect<void, Refusal> => {
      if (current === undefined) return Effect.void
      const { draft, filename } = current
      size += bytes.length
      const refusal = refusalOf(filename, onContent(bytes.length) - size)
      return refusal === undefined ? draft.append(bytes) : Effect.zipRight(draft.append(bytes), Effect.fail(refusal))
    })

  const end = Effect.gen(function* () {
    if (current === undefined) return
    finished.push(yield* current.draft.end)
    current = undefined
  })

  return {
    finished,
    take: (event: MultipartEvent): Effect.Effect<void, Refusal> => {
      if (event._tag === "PartBegins") return begin(event.head)
      return event._tag === "Content" ? append(event.bytes) : end
    }
  }
}

/** Reads a body and stores its files as they arrive. Stops at the first problem. */
export const read = (source: IncomingMessage, reading: Reading): Effect.Effect<ReadonlyArray<WholeDraft>, Refusal> =>
  Effect.gen(function* () {
    const { boundary, config } = reading
    const clock = yield* Effect.clock
    const parser = new MultipartParser(boundary)
    const files = makeFiles(reading)
    const maxBytes = config.maxRequest + overheadBytes
    let waitingSince: number | undefined
    const next = Effect.suspend(() => {
      waitingSince = steadyMillis(clock)
      return Body.next(source)
    })

    const all = Effect.gen(function* () {
      let bytes = 0
      for (let piece = yield* next; piece !== undefined; piece = yield* next) {
        waitingSince = undefined
        bytes += piece.length
        if (bytes > maxBytes) return yield* new BodyTooLarge({ maxBytes })
        const events = parser.write(piece)
        if (Either.isLeft(events)) return yield* malformed(events.left)
        for (const event of events.right) yield* files.take(event)
      }
      if (!parser.isOver) return yield* malformed("the closing boundary is missing")
      if (files.finished.length === 0) return yield* misplaced("The form has no file.", field)
      return files.finished
    })

    // One timer for the whole body: a timeout around each piece would start fibers for every 64 KiB.
    const limit = Duration.toMillis(config.stallTimeout)
    const stalled = Effect.gen(function* () {
      for (;;) {
        const waited = waitingSince === undefined ? 0 : steadyMillis(clock) - waitingSince
        if (waited >= limit) {
          return yield* new RequestTimedOut({
            message: "The upload stalled: no data arrived within UPLOADS_STALL_TIMEOUT. Send it again."
          })
        }
        yield* Effect.sleep(limit - waited)
      }
    })
    return yield* Effect.raceFirst(all, stalled)
  })
