// Peers are installed in a separate folder with their own lock file.
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"

const folder = fileURLToPath(new URL("./peers", import.meta.url))
const { resolve } = createRequire(join(folder, "package.json"))

const wanted = () => Object.entries(JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).dependencies)

const installed = (name) => {
  const file = join(folder, "node_modules", name, "package.json")
  return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")).version : undefined
}

/** Installs the locked versions if needed. */
export const installPeers = () => {
  if (wanted().every(([name, version]) => installed(name) === version)) return
  console.log("Installing the peers into scripts/bench/peers, once")
  const { error, status, stderr } = spawnSync("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], {
    cwd: folder,
    encoding: "utf8",
    timeout: 300_000,
    shell: process.platform === "win32"
  })
  if (status !== 0) throw new Error(`npm ci in scripts/bench/peers failed: ${error ?? stderr.slice(-2000)}`)
}

export const peerVersions = () => Object.fromEntries(wanted().map(([name]) => [name, installed(name)]))

/** Imports a peer's module, whether CommonJS or ESM. */
export const peer = async (name) => {
  const module = await import(pathToFileURL(resolve(name)).href)
  return { ...module.default, ...module }
}
