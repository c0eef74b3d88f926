import { createHash } from "node:crypto"
import { mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises"
import { join, resolve } from "node:path"
import { Effect, Option, Schema, type Scope } from "effect"
import { UploadId } from "../../core/Ids.js"
import * as DirectoryLock from "../../database/embedded/DirectoryLock.js"
import { type DirectoryHeld, errorCode } from "../../database/embedded/EmbeddedPostgresError.js"
import * as Filename from "../../uploads/Filename.js"
import type { Taker, WaitingFile } from "./PullClient.js"
import { FileDamaged, FolderUnusable } from "./PullErrors.js"

// How a file gets into the folder, so that a kill at any point neither loses, corrupts nor repeats it. Beside the files
// lies `.nightshift-pull/`, with two files per file on its way:
//
//   1. <id>.part   content as it comes; after a kill it is hashed again and only the rest is fetched
//   2. <id>.done   the name it is to get, written once the part is whole, has the right hash and is on disk
//   3. the part is renamed to <id>-<name> in the folder: from here on whoever uses the folder may take it away
//   4. the service is told
//   5. <id>.done is removed
//
// After a kill, `.done` with a part means that step 3 is to be done, and `.done` alone that it was: then the file is not
// fetched again, though somebody may have moved it, and only 4 and 5 are left.

/** What a part holds already, and how to go on with it. */
export interface Part extends Taker {
  readonly size: () => number
}

/** A folder that this process alone puts files into. */
export interface PullFolder {
  /** Puts what was whole in its place, and says of which files in place the service may not know. */
  readonly delivered: Effect.Effect<ReadonlyArray<UploadId>, FolderUnusable>

  /** Lets `fetch` bring what is missing, and puts the file in its place; answers the path. */
  readonly receive: <E, R>(
    file: WaitingFile,
    fetch: (part: Part) => Effect.Effect<void, E, R>
  ) => Effect.Effect<string, E | FileDamaged | FolderUnusable, R>

  /** The service knows of the file: nothing about it needs to be remembered. */
  readonly forget: (id: UploadId) => Effect.Effect<void, FolderUnusable>

  /** Throws parts of other files away: nobody will bring the rest. */
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

/** Opens a folder for this process alone, until the Scope closes. */
export const take = (folder: string): Effect.Effect<PullFolder, FolderUnusable | DirectoryHeld, Scope.Scope> =>
  Effect.gen(function* () {
    const root = resolve(folder)
    const workFolder = join(root, ".nightshift-pull")
    const partOf = (id: UploadId) => join(workFolder, `${id}.part`)
    const doneOf = (id: UploadId) => join(workFolder, `${id}.done`)
    const unusable = (error: unknown) =>
      new FolderUnusable({ folder: root, reason: error instanceof Error ? error.message : String(error) })
    const here = <A>(act: () => Promise<A>) => Effect.tryPromise({ try: act, catch: unusable })

    /** The rename is on disk before anybody is told of it. */
    const putInPlace = async (id: UploadId, name: string): Promise<string> => {
      const path = join(root, name)
      await rename(partOf(id), path)
      await sync(root)
      await sync(workFolder)
      return path
    }

    const markDone = async (id: UploadId, name: string) => {
      // Whole or not there, like everything here.
      const unfinished = `${doneOf(id)}.tmp`
      const handle = await open(unfinished, "w")
      await handle
        .writeFile(name)
        .then(() => handle.sync())
        .finally(() => handle.close())
      await rename(unfinished, doneOf(id))
      await sync(workFolder)
    }

    yield* here(() => mkdir(workFolder, { recursive: true }))
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
