// Installs folders with a lock file of their own, whose packages the product does not need.
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { join, relative } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"

const root = fileURLToPath(new URL("..", import.meta.url))

/**
 * Runs `npm ci` in a folder if its packages are missing or differ from its lock file, without their install scripts: some
 * download programs that nothing here needs.
 */
export const installLocked = (folder) => {
  const installed = join(folder, "node_modules", ".installed-lock.json")
  const lock = readFileSync(join(folder, "package-lock.json"), "utf8")
  if (existsSync(installed) && readFileSync(installed, "utf8") === lock) return
  const name = relative(root, folder)
  console.log(`Installing the packages of ${name}, once`)
  const { error, status, stderr } = spawnSync("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], {
    cwd: folder,
    encoding: "utf8",
    timeout: 300_000,
    shell: process.platform === "win32"
  })
  if (status !== 0) throw new Error(`npm ci in ${name} failed: ${error ?? stderr.slice(-2000)}`)
  writeFileSync(installed, lock)
}

/** Imports a module that is installed in such a folder, whether CommonJS or ESM. */
export const importFrom = async (folder, name) => {
  const { resolve } = createRequire(join(folder, "package.json"))
  const module = await import(pathToFileURL(resolve(name)).href)
  return { ...module.default, ...module }
}
