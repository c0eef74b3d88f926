import { closeSync, constants, fchownSync, fstatSync, openSync, renameSync, writeSync } from "node:fs"
import { Effect, type Scope } from "effect"
import { type DirectoryUnusable, directoryUnusable, errorCode } from "./EmbeddedPostgresError.js"

/** Appends the server's output to a log file. Rotates it when it is large and keeps at most two files. */
export interface ServerLog {
  readonly write: (chunk: Buffer) => void
}

const largest = 4 * 1024 * 1024

const open = (file: string, owner: { readonly uid: number; readonly gid: number }) => {
  // O_NOFOLLOW: as root, this process may write to a directory that another user owns.
  const flags = constants.O_APPEND | constants.O_CREAT | constants.O_WRONLY | constants.O_NOFOLLOW
  const descriptor = openSync(file, flags, 0o600)
  if (process.getuid?.() === 0) fchownSync(descriptor, owner.uid, owner.gid)
  return { descriptor, size: fstatSync(descriptor).size }
}

/** Opens the log; `owner` is the owner of its directory. */
export const make = (
  directory: string,
  file: string,
  owner: { readonly uid: number; readonly gid: number }
): Effect.Effect<ServerLog, DirectoryUnusable, Scope.Scope> =>
  Effect.gen(function* () {
    let current = yield* Effect.try({
      try: () => open(file, owner),
      catch: (error) => directoryUnusable(directory, errorCode(error), `${error}`)
    })
    let closed = false
    const turnOver = () => {
      closeSync(current.descriptor)
      closed = true
      renameSync(file, `${file}.1`)
      current = open(file, owner)
      closed = false
    }
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        if (!closed) closeSync(current.descriptor)
        closed = true
      })
    )
    return {
      write: (chunk) => {
        // A full disk or a removed directory must not crash the process.
        try {
          if (closed) return
          if (current.size > largest) turnOver()
          current.size += writeSync(current.descriptor, chunk)
        } catch {}
      }
    }
  })
