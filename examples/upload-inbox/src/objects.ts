import { createWriteStream } from "node:fs"
import { mkdir, rename } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import { Readable } from "node:stream"
import { pipeline } from "node:stream/promises"

/** The part of S3 that the inbox needs. With the AWS SDK, `put` is one `Upload` from `@aws-sdk/lib-storage`. */
export interface ObjectStore {
  /** Stores the bytes under the key. The same key again replaces the object, so a retry is harmless. */
  put(key: string, body: ReadableStream<Uint8Array>, signal: AbortSignal): Promise<void>
}

/** Objects as files, for development. An object appears under its name once it is complete. */
export const folder = (root: string): ObjectStore => ({
  put: async (key, body, signal) => {
    const path = resolve(join(root, key))
    if (!path.startsWith(`${resolve(root)}/`)) throw new Error(`the key ${key} leaves the folder`)
    await mkdir(dirname(path), { recursive: true })
    await pipeline(Readable.fromWeb(body as never), createWriteStream(`${path}.part`), { signal })
    await rename(`${path}.part`, path)
  }
})
