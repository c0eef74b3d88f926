import { createHash } from "node:crypto"
import { open, readdir, readFile, rename, rm, stat } from "node:fs/promises"
import { join, resolve } from "node:path"
import { Effect, Option, Schema, type Scope } from "effect"
import { UploadId } from "../../core/Ids.js"
import { makeWithParents } from "../../database/embedded/DataDirectory.js"
import * as DirectoryLock from "../../database/embedded/DirectoryLock.js"
import { type DirectoryHeld, errorCode } from "../../database/embedded/EmbeddedPostgresError.js"
import * as Filename from "../../uploads/Filename.js"
import { FileDamaged, FolderUnusable, type Taker, type WaitingFile } from "./PullClient.js"

// How a file gets into the folder, so that a kill at any point neither loses, corrupts nor duplicates it. The subfolder
// `.nightshift-pull/` holds up to two files per download:
//
// 1. <id>.part   received content; after a kill it is hashed again and only the rest is fetched
// 2. <id>.done   the final name, written once the part is complete, verified and on disk
// 3. rename the part to <id>-<name> in the folder: from here on its consumer may move it away
// 4. acknowledge the file to the service
// 5. remove <id>.done
//
// After a kill, `.done` with a part means that step 3 is missing. `.done` alone means that step 3 is done: the file is
// not fetched again, even if its consumer has moved it, and only steps 4 and 5 remain.

/** A partial download: the bytes received so far, and how to append to it. */
export interface Part extends Taker {
  readonly size: () => number
}

/** A target folder, locked by this process. */
export interface PullFolder {
  /** Finishes step 3 for complete parts. Returns the delivered files that may not be acknowledged yet. */
  readonly delivered: Effect.Effect<ReadonlyArray<UploadId>, FolderUnusable>

  /** Runs `fetch` for the missing bytes and moves the file into the folder. Returns its path. */
  readonly receive: <E, R>(
    file: WaitingFile,
    fetch: (part: Part) => Effect.Effect<void, E, R>
  ) => Effect.Effect<string, E | FileDamaged | FolderUnusable, R>

  /** Removes the record of an acknowledged file. */
  readonly forget: (id: UploadId) => Effect.Effect<void, FolderUnusable>

  /** Deletes the parts of all other files: the service no longer has them. */
  readonly keepOnly: (ids: ReadonlySet<UploadId>) => Effect.Effect<void, FolderUnusable>
}

const sync = async (path: string) => {
  const handle = await open(path, "r")
  await handle.sync().finally(() => handle.close())
}

const exists = (path: string) =>
  stat(path).then(
    () => true,
    (error) => (errorCode(error) === "ENOENT" ? false : Promise.reject(error))
  )

const openPart = async (path: string, file: WaitingFile, unusable: (error: unknown) => FolderUnusable) => {
  const handle = await open(path, "a+")
  let hash = createHash("sha256")
  let size = 0
  for await (const piece of handle.createReadStream({ start: 0, autoClose: false })) {
    hash.update(piece)
    size += piece.length
  }
  const restart = async () => {
    await handle.truncate(0).catch((error) => Promise.reject(unusable(error)))
    hash = createHash("sha256")
    size = 0
  }
  if (size > file.size) await restart()
  const piece = async (bytes: Uint8Array) => {
    await handle.appendFile(bytes).catch((error) => Promise.reject(unusable(error)))
    hash.update(bytes)
    size += bytes.length
  }
  return {
    handle,
    part: { size: () => size, restart, piece },
    isWhole: () => size === file.size && hash.digest("hex") === file.sha256
  }
}

const readId = Schema.decodeUnknownOption(UploadId)

const idsOf = (names: ReadonlyArray<string>, ending: string) =>
  names
    .filter((name) => name.endsWith(ending))
    .flatMap((name) => Option.toArray(readId(name.slice(0, -ending.length))))
    .sort()

/** Opens and locks a folder until the Scope closes. */
export const take = (folder: string): Effect.Effect<PullFolder, FolderUnusable | DirectoryHeld, Scope.Scope> =>
  Effect.gen(function* () {
    const root = resolve(folder)
    const workFolder = join(root, ".nightshift-pull")
    const partOf = (id: UploadId) => join(workFolder, `${id}.part`)
    const doneOf = (id: UploadId) => join(workFolder, `${id}.done`)
    const unusable = (error: unknown) =>
      new FolderUnusable({ folder: root, reason: error instanceof Error ? error.message : String(error) })
    const here = <A>(act: () => Promise<A>) => Effect.tryPromise({ try: act, catch: unusable })

    /** The rename must be on disk before the file is acknowledged. */
    const putInPlace = async (id: UploadId, name: string): Promise<string> => {
      const path = join(root, name)
      await rename(partOf(id), path)
      await sync(root)
      await sync(workFolder)
      return path
    }

    const markDone = async (id: UploadId, name: string) => {
      // Write to a temporary file and rename, so that `.done` is never incomplete.
      const unfinished = `${doneOf(id)}.tmp`
      const handle = await open(unfinished, "w")
      await handle
        .writeFile(name)
        .then(() => handle.sync())
        .finally(() => handle.close())
      await rename(unfinished, doneOf(id))
      await sync(workFolder)
    }

    yield* here(() => makeWithParents(workFolder, 0o755))
    yield* DirectoryLock.acquire(workFolder).pipe(
      Effect.catchTag("DirectoryUnusable", ({ reason }) => new FolderUnusable({ folder: root, reason }))
    )

    return {
      delivered: here(async () => {
        const ids = idsOf(await readdir(workFolder), ".done")
        for (const id of ids) {
          if (await exists(partOf(id))) {
            await putInPlace(
              id,
              `${id}-${Filename.sanitize((await readFile(doneOf(id), "utf8")).slice(id.length + 1))}`
            )
          }
        }
        return ids
      }),

      receive: (file, fetch) =>
        Effect.acquireUseRelease(
          here(() => openPart(partOf(file.id), file, unusable)),
          ({ handle, isWhole, part }) =>
            Effect.gen(function* () {
              if (part.size() < file.size) yield* fetch(part)
              const name = `${file.id}-${Filename.sanitize(file.name)}`
              if (!isWhole()) {
                yield* here(() => rm(partOf(file.id), { force: true }))
                return yield* new FileDamaged({ name: Filename.sanitize(file.name) })
              }
              return yield* here(async () => {
                await handle.sync()
                await markDone(file.id, name)
                return putInPlace(file.id, name)
              })
            }),
          ({ handle }) => Effect.promise(() => handle.close().catch(() => {}))
        ),

      forget: (id) => here(() => rm(doneOf(id), { force: true })),

      keepOnly: (ids) =>
        here(async () => {
          const parts = idsOf(await readdir(workFolder), ".part")
          for (const id of parts) if (!ids.has(id)) await rm(partOf(id), { force: true })
        })
    }
  })
