import type { IncomingMessage, ServerResponse } from "node:http"
import { Effect, Either, Exit, Option } from "effect"
import type { UploadId, Workspace } from "../../core/Ids.js"
import { faultOfText } from "../../core/Storable.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { digestOf, subjectCharacters } from "../../database/SubjectText.js"
import * as Intake from "../../queue/enqueue/JobRequests.js"
import type { QueueFull } from "../../queue/JobErrors.js"
import { Kinds } from "../../queue/Kinds.js"
import { Queue } from "../../queue/Queue.js"
import { Transactions } from "../../queue/Transactions.js"
import * as Arrival from "../../uploads/Arrival.js"
import type { WholeDraft } from "../../uploads/Draft.js"
import { Storage } from "../../uploads/Storage.js"
import type { Upload } from "../../uploads/Upload.js"
import { UploadsConfig } from "../../uploads/UploadsConfig.js"
import type { Bearer } from "../access/WorkspaceAuth.js"
import {
  BadRequest,
  BodyTooLarge,
  JobKindMissing,
  RequestTimedOut,
  type Unauthorized,
  UploadsBusy
} from "../RequestErrors.js"
import * as FilesReader from "./FilesReader.js"
import { boundaryOf } from "./MultipartParser.js"

/** Maximum concurrent upload requests of this process, in total and per workspace. */
const atOnce = { all: 64, perWorkspace: 16 }

/** The header that says whose data the files of a request are. */
const subjectHeader = "Subject"

/** Node reads headers as Latin-1, clients send UTF-8. */
const subjectOf = ({ headers }: IncomingMessage): string | undefined => {
  const given = headers.subject
  return typeof given === "string" ? Buffer.from(given, "latin1").toString("utf8") : undefined
}

export type Refusal = BadRequest | FilesReader.Refusal | UploadsBusy | JobKindMissing | QueueFull | Unauthorized

/** Receives the files of a request. Publishes all files and enqueues their jobs in one transaction. */
export type Receive = (
  source: IncomingMessage,
  response: ServerResponse,
  bearer: Bearer
) => Effect.Effect<ReadonlyArray<Upload>, Refusal>

export const make: Effect.Effect<Receive, never, Storage | UploadsConfig | Transactions | Queue | Kinds> = Effect.gen(
  function* () {
    const storage = yield* Storage
    const config = yield* UploadsConfig
    const transactions = yield* Transactions
    const queue = yield* Queue
    const kinds = yield* Kinds
    const arriving = new Arriving()

    const missing = (kind: string) => () => new JobKindMissing({ kind })

    /** Runs before the body is read, so clients of a misconfigured service do not send files that it would reject. */
    const checkKind = Option.match(config.jobKind, {
      onNone: () => Effect.void,
      onSome: (kind) => Effect.catchTag(Effect.asVoid(kinds.find(kind)), "UnknownKind", missing(kind))
    })

    const enqueueJobs = (
      uploads: ReadonlyArray<Upload>,
      subject: string | undefined
    ): Effect.Effect<void, JobKindMissing | QueueFull | DatabaseError> =>
      Option.match(config.jobKind, {
        onNone: () => Effect.void,
        onSome: (kind) =>
          Intake.resolve(
            uploads.map((upload) => ({ kind, payload: Arrival.of(upload), subject })),
            { force: false }
          ).pipe(
            Effect.provideService(Kinds, kinds),
            Effect.flatMap(queue.enqueue),
            Effect.asVoid,
            Effect.catchTags({
              KindRefused: missing(kind),
              // Cannot happen with a registered kind and generated ids.
              InvalidJob: Effect.die,
              JobIdTaken: Effect.die
            })
          )
      })

    const read = (
      source: IncomingMessage,
      response: ServerResponse,
      { workspace }: Bearer,
      onBegun: (id: UploadId) => void,
      onContent: (bytes: number) => number
    ) =>
      Effect.gen(function* () {
        const boundary = boundaryOf(source.headers["content-type"])
        if (Either.isLeft(boundary)) return yield* FilesReader.malformed(boundary.left)
        const maxBytes = config.maxRequest + FilesReader.overheadBytes
        if (Number(source.headers["content-length"] ?? 0) > maxBytes) return yield* new BodyTooLarge({ maxBytes })
        yield* checkKind
        const kept = yield* storage.kept(workspace)
        // Answer `Expect: 100-continue` only after all checks that need no body.
        if (source.headers.expect !== undefined) response.writeContinue()
        return yield* FilesReader.read(source, {
          storage,
          config,
          workspace,
          boundary: boundary.right,
          kept,
          onBegun,
          onContent
        })
      }).pipe(
        Effect.timeoutFail({
          duration: config.timeout,
          onTimeout: () =>
            new RequestTimedOut({ message: "The upload took longer than UPLOADS_TIMEOUT. Send fewer files at a time." })
        })
      )

    const publish = ({ stillMay, workspace }: Bearer, drafts: ReadonlyArray<WholeDraft>, subject: string | undefined) =>
      transactions.run(
        Effect.gen(function* () {
          yield* stillMay
          const uploads = yield* storage.publish(
            workspace,
            drafts,
            subject === undefined ? undefined : digestOf(subject)
          )
          yield* enqueueJobs(uploads, subject)
          return uploads
        })
      )

    const receive = (
      source: IncomingMessage,
      response: ServerResponse,
      bearer: Bearer,
      onContent: (bytes: number) => number
    ): Effect.Effect<ReadonlyArray<Upload>, Refusal> =>
      Effect.suspend(() => {
        const begun: Array<UploadId> = []
        // Best effort: if the database is unavailable, the sweeper deletes the drafts later.
        const discard = Effect.suspend(() => Effect.ignore(storage.discard(begun)))
        const subject = subjectOf(source)
        const fault = subject === undefined ? undefined : faultOfText(subject, subjectCharacters)
        if (fault !== undefined) return new BadRequest({ message: `${subjectHeader} ${fault}.`, field: subjectHeader })
        return read(source, response, bearer, (id) => begun.push(id), onContent).pipe(
          Effect.flatMap((drafts) => publish(bearer, drafts, subject)),
          Effect.onExit((exit) => (Exit.isSuccess(exit) ? Effect.void : discard))
        )
      })

    return (source, response, bearer) =>
      Effect.acquireUseRelease(
        Effect.suspend(() => arriving.enter(bearer.workspace)),
        (place) => receive(source, response, bearer, place.add),
        (place) => Effect.sync(place.leave)
      )
  }
)

interface Place {
  /** Counts received bytes. Returns the total of all requests in progress for the workspace. */
  readonly add: (bytes: number) => number
  readonly leave: () => void
}

/** Upload requests in progress. */
class Arriving {
  private requests = 0
  private readonly workspaces = new Map<Workspace, { requests: number; bytes: number }>()

  enter(workspace: Workspace): Effect.Effect<Place, UploadsBusy> {
    const share = this.workspaces.get(workspace) ?? { requests: 0, bytes: 0 }
    if (this.requests >= atOnce.all || share.requests >= atOnce.perWorkspace) return new UploadsBusy()
    this.workspaces.set(workspace, share)
    this.requests += 1
    share.requests += 1
    let own = 0
    return Effect.succeed({
      add: (bytes) => {
        own += bytes
        share.bytes += bytes
        return share.bytes
      },
      leave: () => {
        this.requests -= 1
        share.requests -= 1
        share.bytes -= own
        if (share.requests === 0) this.workspaces.delete(workspace)
      }
    })
  }
}
