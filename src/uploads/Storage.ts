import { Context, type Duration, type Effect, type Stream } from "effect"
import type { BadCursor } from "../core/BadCursor.js"
import type { UploadId } from "../core/Ids.js"
import type { Workspace } from "../core/Workspace.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { Draft, WholeDraft } from "./Draft.js"
import type { ByteRange, NewUpload, Upload, UploadState } from "./Upload.js"
import type { DraftLost, InvalidUpload, QuotaExceeded, UploadNotFound, UploadTooLarge } from "./UploadErrors.js"

/** A file with a way to its content. */
export interface Stored {
  readonly upload: Upload
  /** The content, or a part of it, read piece by piece as it is asked for. Fails when it is swept meanwhile. */
  readonly content: (range?: ByteRange) => Stream.Stream<Uint8Array, UploadNotFound | DatabaseError>
}

/** What a sweep deleted. */
export interface Swept {
  /** Acknowledged, and past their retention. */
  readonly acked: number
  /** Never acknowledged in their time. */
  readonly expired: number
  /** Both together. */
  readonly total: number
  /** Contents that were never published: their clients went away. */
  readonly leftovers: number
}

/** How many files there are in each state, counted up to a bound. */
export interface UploadCounts {
  readonly waiting: number
  readonly fetched: number
  readonly acked: number
  readonly expired: number
}

/** Which files are meant: those to which everything that is said here applies. */
export interface UploadFilter {
  readonly workspace?: string | undefined
  readonly state?: UploadState | undefined
}

export interface UploadPage {
  /** Newest first. */
  readonly uploads: ReadonlyArray<Upload>
  /** Where the next page begins, if there is one. */
  readonly next: string | undefined
}

/** A workspace whose files wait for longer than they should. */
export interface StuckWorkspace {
  readonly workspace: Workspace
  readonly files: number
  readonly bytes: number
  /** Since when the oldest of them waits. */
  readonly oldest: number
}

/** Files between those who bring them and the workspaces that fetch them. */
export class Storage extends Context.Tag("nightshift/uploads/Storage")<
  Storage,
  {
    /** `putMany` of one. */
    readonly put: (
      workspace: Workspace,
      file: NewUpload
    ) => Effect.Effect<UploadId, InvalidUpload | UploadTooLarge | QuotaExceeded | DatabaseError>

    /**
     * Stores files in one transaction, or in the caller's; ids in their order. Empty content, content over the cap and
     * names that cannot be are refused before anything is written.
     */
    readonly putMany: (
      workspace: Workspace,
      files: ReadonlyArray<NewUpload>
    ) => Effect.Effect<ReadonlyArray<UploadId>, InvalidUpload | UploadTooLarge | QuotaExceeded | DatabaseError>

    /** Begins a file whose content is yet to come. It is stored as it comes, and seen by nobody. */
    readonly begin: (
      file: Pick<NewUpload, "filename" | "mimetype">,
      index?: number
    ) => Effect.Effect<Draft, InvalidUpload>

    /** Makes drafts the workspace's files: all of them at one instant, in one transaction or in the caller's. */
    readonly publish: (
      workspace: Workspace,
      drafts: ReadonlyArray<WholeDraft>
    ) => Effect.Effect<ReadonlyArray<Upload>, DraftLost | QuotaExceeded | DatabaseError>

    /** Throws drafts away. What is published already stays. */
    readonly discard: (drafts: ReadonlyArray<UploadId>) => Effect.Effect<void, DatabaseError>

    /** How much is kept for the workspace. */
    readonly kept: (workspace: Workspace) => Effect.Effect<number, DatabaseError>

    /** What waits for the workspace, oldest first: neither acknowledged nor expired. */
    readonly list: (workspace: Workspace, limit?: number) => Effect.Effect<ReadonlyArray<Upload>, DatabaseError>

    /** A file. An acknowledged one can be read until it is swept; one that expired before that cannot. */
    readonly get: (workspace: Workspace, id: UploadId) => Effect.Effect<Stored, UploadNotFound | DatabaseError>

    /** Notes that the file was fetched now. */
    readonly markFetched: (workspace: Workspace, id: UploadId) => Effect.Effect<void, UploadNotFound | DatabaseError>

    /** The workspace has the file. The first time is the one that counts, and again does no harm. */
    readonly ack: (workspace: Workspace, id: UploadId) => Effect.Effect<void, UploadNotFound | DatabaseError>

    /**
     * Deletes what was acknowledged longer ago than this, what expired, and leftovers: in one statement, or in several
     * when there is much. An acknowledged file goes by this retention only, whenever it would have expired.
     */
    readonly sweep: (ackRetention: Duration.DurationInput) => Effect.Effect<Swept, DatabaseError>

    /** Files of all workspaces, for those who run the service: a page of at most `limit`, in bounded time. */
    readonly browse: (
      filter: UploadFilter,
      page: { readonly limit: number; readonly cursor?: string | undefined }
    ) => Effect.Effect<UploadPage, BadCursor | DatabaseError>

    readonly counts: Effect.Effect<UploadCounts, DatabaseError>

    /** Workspaces whose oldest file has waited for longer than this, the longest first. */
    readonly stuck: (waitingFor: Duration.DurationInput) => Effect.Effect<ReadonlyArray<StuckWorkspace>, DatabaseError>
  }
>() {}

/** A workspace that has not come for a file in this time has somebody who should be told. */
export const stuckAfter: Duration.DurationInput = "1 hour"

/** How many files a list holds at most. What is acknowledged makes room for the next. */
export const mostListed = 1_000

/** How far counts go. Counting on would read the whole table for a number that nobody acts on. */
export const mostCounted = 100_000
