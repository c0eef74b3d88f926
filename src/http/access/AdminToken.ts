import { randomBytes } from "node:crypto"
import { chmod, readFile, realpath, stat } from "node:fs/promises"
import { join, resolve } from "node:path"
import { Effect, Layer, Option, Redacted } from "effect"
import * as DataDirectory from "../../database/embedded/DataDirectory.js"
import { EmbeddedPostgres } from "../../database/embedded/EmbeddedPostgres.js"
import { type DirectoryUnusable, errorCode, inDirectory } from "../../database/embedded/EmbeddedPostgresError.js"
import { ServerConfig } from "../ServerConfig.js"

/** File in the embedded database's directory that holds the generated token. */
const fileName = "admin-token"

/** Whether an embedded service has generated a token in this directory. */
export const exists = (directory: string): Effect.Effect<boolean> =>
  Effect.promise(() =>
    stat(join(directory, fileName)).then(
      (file) => file.size > 0,
      () => false
    )
  )

/** Reads the directory's token, or generates one that only the owner can read. */
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
  // As root, the directory has the PostgreSQL user's group, which must not read the token.
  yield* DataDirectory.writeWhole(file, `${made}\n`, { uid, gid: uid === 0 ? 0 : gid })
  return Redacted.make(made)
})

/** Adds a generated admin token to the settings if none is set. */
export const layerConfig: Layer.Layer<ServerConfig, DirectoryUnusable, ServerConfig | EmbeddedPostgres> = Layer.effect(
  ServerConfig,
  Effect.gen(function* () {
    const config = yield* ServerConfig
    if (Option.isSome(config.adminToken)) return config
    const { directory } = yield* EmbeddedPostgres
    return { ...config, adminToken: Option.some(yield* readOrMake(directory)) }
  })
)
