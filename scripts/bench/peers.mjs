// Peers are installed in a separate folder with their own lock file.
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { importFrom, installLocked } from "../locked.mjs"

const folder = fileURLToPath(new URL("./peers", import.meta.url))

const wanted = () => Object.keys(JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).dependencies)

const installed = (name) => {
  const file = join(folder, "node_modules", name, "package.json")
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")).version : undefined
}

/** Installs the locked versions if needed. */
export const installPeers = () => installLocked(folder, "--ignore-scripts")

export const peerVersions = () => Object.fromEntries(wanted().map((name) => [name, installed(name)]))

/** Imports a peer's module, whether CommonJS or ESM. */
export const peer = (name) => importFrom(folder, name)
