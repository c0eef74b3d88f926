import { randomBytes } from "node:crypto"
import { chmod, readFile, realpath, stat } from "node:fs/promises"
import { join, resolve } from "node:path"
import { Effect, Layer, Option, Redacted } from "effect"
import * as DataDirectory from "../../database/embedded/DataDirectory.js"
import { EmbeddedPostgres } from "../../database/embedded/EmbeddedPostgres.js"
import { type DirectoryUnusable, errorCode, inDirectory } from "../../database/embedded/EmbeddedPostgresError.js"
import { ServerConfig } from "../ServerConfig.js"

/** The file beside the embedded database that holds the token we made. */
export const fileName = "admin-token"

/** The token of a directory that an embedded database lies in: made once, for its owner's eyes only. */
export const readOrMake = Effect.fn("AdminToken.readOrMake")(function* (
  directory: string
): Effect.fn.Return<Redacted.Redacted, DirectoryUnusable> {
  const path = yield* inDirectory(directory, () => realpath(resolve(directory)))
  const file = join(path, fileName)
  const known = yield* inDirectory(path, () =>
    readFile(file, "utf8").catch((error) => (errorCode(error) === "ENOENT" ? "" : Promise.reject(error)))
  )
  if (known.trim() !== "") {
    yield* inDirectory(path, () => chmod(file, 0o600))
    return Redacted.make(known.trim())
  }
  const made = randomBytes(24).toString("base64url")
  const { gid, uid } = yield* inDirectory(path, () => stat(path))
  // Root's directory has the group of the server's user, who must not read this.
  yield* DataDirectory.writeWhole(file, `${made}\n`, { uid, gid: uid === 0 ? 0 : gid })
  return Redacted.make(made)
})

/** The configuration of the doors, with a token of our own where none is set. */
export const layerConfig: Layer.Layer<ServerConfig, DirectoryUnusable, ServerConfig | EmbeddedPostgres> = Layer.effect(
  ServerConfig,
  Effect.gen(function* () {
    const config = yield* ServerConfig
    if (Option.isSome(config.adminToken)) return config
    const { directory } = yield* EmbeddedPostgres
    return { ...config, adminToken: Option.some(yield* readOrMake(directory)) }
  })
)
