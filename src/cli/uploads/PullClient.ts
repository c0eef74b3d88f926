import { Effect, Predicate, Redacted, Schema } from "effect"
import { UploadId } from "../../core/Ids.js"
import type { Workspace } from "../../core/Workspace.js"
import { FileGone, FolderUnusable, ServiceRefused, ServiceUnreachable } from "./PullErrors.js"

/** A file that waits at the service, as it tells us. None of it is trusted to be a path. */
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

/** Who takes a content. Both fail with FolderUnusable when they cannot. */
export interface Taker {
  readonly restart: () => Promise<void>
  readonly piece: (bytes: Uint8Array) => Promise<void>
}

/** An answer that does not come is one that will not. */
const patience = "30 seconds"

export interface PullClientOptions {
  readonly url: string
  readonly workspace: Workspace
  readonly token: Redacted.Redacted
}

/** What a workspace asks of the service. */
export const make = ({ token, url, workspace }: PullClientOptions) => {
  const base = `${url}/uploads/${workspace}`
  const unreachable = (error: unknown) => new ServiceUnreachable({ url, reason: reasonOf(error) })

  const inTime = Effect.timeoutFail({ duration: patience, onTimeout: () => unreachable(`no answer in ${patience}`) })

  const refusal = (response: Response): ServiceRefused | ServiceUnreachable => {
    if (response.status === 401) {
      return new ServiceRefused({
        message: `${url} does not accept the token for the workspace ${workspace}. Set UPLOADS_TOKEN to one that \`nightshift uploads tokens create\` made and nobody revoked.`
      })
    }
    if (response.status === 404 || response.status === 403) {
      return new ServiceRefused({
        message: `${url} answers ${response.status}: it is no Nightshift service, or not by this name.`
      })
    }
    return new ServiceUnreachable({ url, reason: `it answers ${response.status}` })
  }

  /** Whatever becomes of the answer, what is not read of it is not waited for. */
  const asking = <A, E>(path: string, init: RequestInit, use: (response: Response) => Effect.Effect<A, E>) =>
    Effect.acquireUseRelease(
      Effect.sync(() => new AbortController()),
      ({ signal }) =>
        Effect.tryPromise({
          try: () =>
            fetch(`${base}${path}`, {
              ...init,
              signal,
              // A redirect would carry the token to somewhere else.
              redirect: "error",
              headers: { ...init.headers, authorization: `Bearer ${Redacted.value(token)}` }
            }),
          catch: unreachable
        }).pipe(Effect.flatMap(use)),
      (controller) => Effect.sync(() => controller.abort())
    )

  return {
    /** What waits, oldest first. */
    list: asking("", {}, (response) =>
      Effect.gen(function* () {
        if (response.status !== 200) return yield* refusal(response)
        const body = yield* Effect.tryPromise({ try: (): Promise<unknown> => response.json(), catch: unreachable })
        const { files } = yield* Effect.mapError(
          Schema.decodeUnknown(Listing)(body),
          () => new ServiceRefused({ message: `${url} does not answer like a Nightshift service.` })
        )
        return files
      })
    ).pipe(inTime),

    /** Hands over the content from `from` on, piece by piece. `restart` says that it begins at the beginning after all. */
    content: (file: WaitingFile, from: number, take: Taker) => {
      const headers = from === 0 ? {} : { range: `bytes=${from}-`, "if-range": `"${file.sha256}"` }
      return asking(`/${file.id}/content`, { headers }, (response) =>
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
            // Between reading and writing either side may fail.
            catch: (error) => (error instanceof FolderUnusable ? error : unreachable(error))
          })
        })
      )
    },

    /** The file is ours. One that is not there any more was acknowledged by somebody, or expired. */
    ack: (id: UploadId) =>
      asking(
        `/${id}/ack`,
        { method: "POST" },
        (response): Effect.Effect<void, FileGone | ServiceRefused | ServiceUnreachable> => {
          // Read to its end, the connection serves for the next file too.
          if (response.status === 200) return Effect.ignore(Effect.tryPromise(() => response.arrayBuffer()))
          return response.status === 404 ? new FileGone() : refusal(response)
        }
      ).pipe(inTime)
  }
}

export type PullClient = ReturnType<typeof make>
