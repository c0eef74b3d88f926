import { Effect, Predicate, Redacted, Schema } from "effect"
import { UploadId, type Workspace } from "../../core/Ids.js"

/** The service cannot be reached; the request can be retried. */
export class ServiceUnreachable extends Schema.TaggedError<ServiceUnreachable>()("ServiceUnreachable", {
  url: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `${this.url} is not reachable (${this.reason}). Start the service, or correct --url or UPLOADS_URL.`
  }
}

/** The service rejected the request; a retry would not help. */
export class ServiceRefused extends Schema.TaggedError<ServiceRefused>()("ServiceRefused", {
  message: Schema.String
}) {}

/** The file expired or was acknowledged by another client. */
export class FileGone extends Schema.TaggedError<FileGone>()("FileGone", {}) {
  override get message(): string {
    return "The file expired or was already acknowledged."
  }
}

/** The downloaded content does not match its hash. */
export class FileDamaged extends Schema.TaggedError<FileDamaged>()("FileDamaged", { name: Schema.String }) {
  override get message(): string {
    return `${this.name} did not match its hash and was discarded. The next round fetches it again.`
  }
}

/** The target folder cannot be read or written. */
export class FolderUnusable extends Schema.TaggedError<FolderUnusable>()("FolderUnusable", {
  folder: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `Cannot store files in ${this.folder}: ${this.reason}. Fix the problem, or choose another folder with --into.`
  }
}

/** A waiting file as listed by the service. Its name is untrusted and must not be used as a path. */
const WaitingFile = Schema.Struct({
  id: UploadId,
  name: Schema.String,
  size: Schema.Int,
  sha256: Schema.String.pipe(Schema.pattern(/^[0-9a-f]{64}$/))
})
export type WaitingFile = typeof WaitingFile.Type

const Listing = Schema.Struct({ files: Schema.Array(WaitingFile) })

const reasonOf = (error: unknown): string => {
  const cause = Predicate.hasProperty(error, "cause") ? error.cause : undefined
  for (const one of [cause, error]) {
    if (Predicate.hasProperty(one, "code") && typeof one.code === "string") return one.code
    if (one instanceof Error && one.message !== "") return one.message
  }
  return String(error)
}

/** Receives the content of a file. Both methods reject with FolderUnusable if they cannot write. */
export interface Taker {
  readonly restart: () => Promise<void>
  readonly piece: (bytes: Uint8Array) => Promise<void>
}

/** Timeout of requests that have a short response. */
const responseTimeout = "30 seconds"

export interface PullClientOptions {
  readonly url: string
  readonly workspace: Workspace
  readonly token: Redacted.Redacted
}

/** Creates a client for one workspace. */
export const make = ({ token, url, workspace }: PullClientOptions) => {
  const base = `${url}/uploads/${workspace}`
  const unreachable = (error: unknown) => new ServiceUnreachable({ url, reason: reasonOf(error) })

  const inTime = Effect.timeoutFail({
    duration: responseTimeout,
    onTimeout: () => unreachable(`no response within ${responseTimeout}`)
  })

  const refusal = (response: Response): ServiceRefused | ServiceUnreachable => {
    if (response.status === 401) {
      return new ServiceRefused({
        message: `${url} rejected the token for workspace ${workspace}. Set UPLOADS_TOKEN to a valid token made by \`nightshift uploads tokens create\`.`
      })
    }
    if (response.status === 404 || response.status === 403) {
      return new ServiceRefused({
        message: `${url} returned ${response.status}: it is not a Nightshift service, or it does not allow this host name.`
      })
    }
    return new ServiceUnreachable({ url, reason: `it returned ${response.status}` })
  }

  /**
   * Sends a request and aborts the response when `use` ends, so that an unread body does not keep the connection open.
   */
  const send = <A, E>(path: string, init: RequestInit, use: (response: Response) => Effect.Effect<A, E>) =>
    Effect.acquireUseRelease(
      Effect.sync(() => new AbortController()),
      ({ signal }) =>
        Effect.tryPromise({
          try: () =>
            fetch(`${base}${path}`, {
              ...init,
              signal,
              // A redirect could send the token to another host.
              redirect: "error",
              headers: { ...init.headers, authorization: `Bearer ${Redacted.value(token)}` }
            }),
          catch: unreachable
        }).pipe(Effect.flatMap(use)),
      (controller) => Effect.sync(() => controller.abort())
    )

  return {
    /** Returns the waiting files, oldest first. */
    list: send("", {}, (response) =>
      Effect.gen(function* () {
        if (response.status !== 200) return yield* refusal(response)
        const body = yield* Effect.tryPromise({ try: (): Promise<unknown> => response.json(), catch: unreachable })
        const { files } = yield* Effect.mapError(
          Schema.decodeUnknown(Listing)(body),
          () =>
            new ServiceRefused({
              message: `${url} returned an unexpected response. Check that it is a Nightshift service.`
            })
        )
        return files
      })
    ).pipe(inTime),

    /**
     * Streams the content from offset `from` to `take`. Calls `restart` first if the service sends the whole file
     * instead.
     */
    content: (file: WaitingFile, from: number, take: Taker) => {
      const headers = from === 0 ? {} : { range: `bytes=${from}-`, "if-range": `"${file.sha256}"` }
      return send(`/${file.id}/content`, { headers }, (response) =>
        Effect.gen(function* () {
          if (response.status === 404) return yield* new FileGone()
          if (response.status !== 200 && response.status !== 206) return yield* refusal(response)
          const { body } = response
          if (body === null) return
          yield* Effect.tryPromise({
            try: async () => {
              if (response.status === 200 && from > 0) await take.restart()
              for await (const piece of body) await take.piece(piece)
            },
            // Either the download or the write may have failed.
            catch: (error) => (error instanceof FolderUnusable ? error : unreachable(error))
          })
        })
      )
    },

    /** Acknowledges a file. Fails with FileGone if it was already acknowledged or has expired. */
    ack: (id: UploadId) =>
      send(
        `/${id}/ack`,
        { method: "POST" },
        (response): Effect.Effect<void, FileGone | ServiceRefused | ServiceUnreachable> => {
          // Reading the body to its end lets the connection be reused.
          if (response.status === 200) return Effect.ignore(Effect.tryPromise(() => response.arrayBuffer()))
          return response.status === 404 ? new FileGone() : refusal(response)
        }
      ).pipe(inTime)
  }
}

export type PullClient = ReturnType<typeof make>
