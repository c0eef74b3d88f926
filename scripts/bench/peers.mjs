// Peers are installed in a separate folder with their own lock file.
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { importFrom, installLocked } from "../locked.mjs"

const folder = fileURLToPath(new URL("./peers", import.meta.url))

const wanted = () => Object.keys(JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).dependencies)

// Releases that run only on newer versions of Node than the oldest that Nightshift supports.
const newer = { "graphile-worker": { package: "graphile-worker-next", node: [22, 18] } }

const runs = ([major, minor]) => {
  const [ours, oursMinor] = process.versions.node.split(".").map(Number)
  return ours > major || (ours === major && oursMinor >= minor)
}

/** The package of a peer: its newest release that runs on this version of Node. */
const packageOf = (name) => (newer[name] !== undefined && runs(newer[name].node) ? newer[name].package : name)

const peers = () => {
  const others = Object.values(newer).map((release) => release.package)
  return wanted().filter((name) => !others.includes(name))
}

const installed = (name) => {
  const file = join(folder, "node_modules", name, "package.json")
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")).version : undefined
}

/** Installs the locked versions if needed. */
export const installPeers = () => installLocked(folder)

export const peerVersions = () => Object.fromEntries(peers().map((name) => [name, installed(packageOf(name))]))

/** Imports a peer's module, whether CommonJS or ESM. */
export const peer = (name) => importFrom(folder, packageOf(name))
