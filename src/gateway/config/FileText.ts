import { constants } from "node:fs"
import { open } from "node:fs/promises"
import { Effect, Option, Predicate } from "effect"

/** Maximum size of a file of declarations. */
const maxBytes = 256 * 1024

const reasonOf = (error: unknown) =>
  Predicate.hasProperty(error, "code") && typeof error.code === "string" ? error.code : String(error)

/** Reads at most the size limit: the file may be a device or still growing. */
const readBounded = async (path: string): Promise<string> => {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    if (!(await file.stat()).isFile()) throw new Error("not a regular file")
    const buffer = Buffer.alloc(maxBytes + 1)
    const { bytesRead } = await file.read(buffer, 0, buffer.length, 0)
    if (bytesRead > maxBytes) throw new Error(`larger than ${maxBytes} bytes`)
    return buffer.toString("utf8", 0, bytesRead)
  } finally {
    await file.close()
  }
}

/** Reads a file of declarations, if it exists. Fails with why it cannot be read. */
export const read = (path: string): Effect.Effect<Option.Option<string>, string> =>
  Effect.tryPromise({ try: () => readBounded(path), catch: reasonOf }).pipe(
    Effect.map(Option.some),
    Effect.catchAll((reason) =>
      reason === "ENOENT" ? Effect.succeedNone : Effect.fail(`the file cannot be read (${reason})`)
    )
  )
