import { Context, type Duration, type Effect, type Stream } from "effect"
import type { BadCursor } from "../core/BadCursor.js"
import type { UploadId, Workspace } from "../core/Ids.js"
import type { SubjectDigest } from "../core/Subject.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { Erase } from "../database/SubjectText.js"
import type { Draft, WholeDraft } from "./Draft.js"
import type { ByteRange, NewUpload, Upload, UploadState } from "./Upload.js"
import type { DraftLost, InvalidUpload, QuotaExceeded, UploadNotFound, UploadTooLarge } from "./UploadErrors.js"

/** A file and access to its content. */
export interface Stored {
  /** Name, type, size and times of the file. */
  readonly upload: Upload
  /** Streams the content, or a range of it, chunk by chunk. Fails if the sweeper deletes the file meanwhile. */
  readonly content: (range?: ByteRange) => Stream.Stream<Uint8Array, UploadNotFound | DatabaseError>
}

/** Number of files deleted by a sweep. */
export interface Swept {
  /** Acknowledged files past their retention. */
  readonly acked: number
  /** Files that expired before they were acknowledged. */
  readonly expired: number
  /** `acked` plus `expired`. */
  readonly total: number
  /** Expired drafts: their uploads never completed. */
  readonly leftovers: number
}

/** Number of files in each state, counted up to `maxCounted`. */
export interface UploadCounts {
  readonly waiting: number
  readonly fetched: number
  readonly acked: number
  readonly expired: number
}

/** All given conditions must match. */
export interface UploadFilter {
  readonly workspace?: string | undefined
  readonly state?: UploadState | undefined
}

export interface UploadPage {
  /** Newest first. */
  readonly uploads: ReadonlyArray<Upload>
  /** Cursor of the next page, if there is one. */
  readonly next: string | undefined
}

/** A workspace with files that have waited too long. */
export interface StuckWorkspace {
  readonly workspace: Workspace
  readonly files: number
  readonly bytes: number
  /** Arrival time of the oldest waiting file, in epoch milliseconds. */
  readonly oldest: number
}

/** The upload inbox: holds files until their workspace fetches and acknowledges them. */
export class Storage extends Context.Tag("nightshift/uploads/Storage")<
  Storage,
  {
    /** Stores one file, like `putMany`. */
    readonly put: (
      workspace: Workspace,
      file: NewUpload
    ) => Effect.Effect<UploadId, InvalidUpload | UploadTooLarge | QuotaExceeded | DatabaseError>

    /**
     * Stores files, of a subject if there is one, in one transaction, or in the caller's. Returns their ids in order. Empty files, files over the size
     * limit and invalid names fail before anything is written.
     */
    readonly putMany: (
      workspace: Workspace,
      files: ReadonlyArray<NewUpload>,
      subject?: SubjectDigest
    ) => Effect.Effect<ReadonlyArray<UploadId>, InvalidUpload | UploadTooLarge | QuotaExceeded | DatabaseError>

    /** Starts a draft. Its content is stored as it arrives and stays invisible until `publish`. */
    readonly begin: (
      file: Pick<NewUpload, "filename" | "mimetype">,
      index?: number
    ) => Effect.Effect<Draft, InvalidUpload>

    /** Publishes drafts to the workspace atomically, in its own transaction or in the caller's. */
    readonly publish: (
      workspace: Workspace,
      drafts: ReadonlyArray<WholeDraft>,
      subject?: SubjectDigest
    ) => Effect.Effect<ReadonlyArray<Upload>, DraftLost | QuotaExceeded | DatabaseError>

    /** Deletes drafts. Published files are not affected. */
    readonly discard: (drafts: ReadonlyArray<UploadId>) => Effect.Effect<void, DatabaseError>

    /** Bytes stored for the workspace. */
    readonly kept: (workspace: Workspace) => Effect.Effect<number, DatabaseError>

    /** Returns the workspace's files that are neither acknowledged nor expired, oldest first. */
    readonly list: (workspace: Workspace, limit?: number) => Effect.Effect<ReadonlyArray<Upload>, DatabaseError>

    /** Returns a file. An acknowledged file stays readable until it is swept; an expired one does not. */
    readonly get: (workspace: Workspace, id: UploadId) => Effect.Effect<Stored, UploadNotFound | DatabaseError>

    /** Sets the fetch time to now. */
    readonly markFetched: (workspace: Workspace, id: UploadId) => Effect.Effect<void, UploadNotFound | DatabaseError>

    /** Acknowledges a file. Idempotent: the first acknowledgement sets the time. */
    readonly ack: (workspace: Workspace, id: UploadId) => Effect.Effect<void, UploadNotFound | DatabaseError>

    /**
     * Deletes files acknowledged longer ago than `ackRetention`, expired files and expired drafts, in batches. Expiry
     * does not apply to acknowledged files.
     */
    readonly sweep: (ackRetention: Duration.DurationInput) => Effect.Effect<Swept, DatabaseError>

    /** Returns a page of at most `limit` files of all workspaces, for operators. The query has a time limit. */
    readonly browse: (
      filter: UploadFilter,
      page: {
        /** Maximum number of files in this page. */
        readonly limit: number
        /** Cursor returned by the previous page. [the first page] */
        readonly cursor?: string | undefined
      }
    ) => Effect.Effect<UploadPage, BadCursor | DatabaseError>

    /** Counts the files in each state, of all workspaces. */
    readonly counts: Effect.Effect<UploadCounts, DatabaseError>

    /** Returns workspaces whose oldest file has waited longer than this, longest wait first. */
    readonly stuck: (waitingFor: Duration.DurationInput) => Effect.Effect<ReadonlyArray<StuckWorkspace>, DatabaseError>

    /** Deletes the files of a subject, with their content, in any state. */
    readonly erase: Erase
  }
>() {}

/** After this time an unfetched file is reported as stuck. */
export const stuckAfter: Duration.DurationInput = "1 hour"

/** Maximum length of a list. Acknowledging files makes room for the next ones. */
export const maxListedFiles = 1_000

/** Upper bound of counts, so that counting never reads the whole table. */
export const maxCounted = 100_000
