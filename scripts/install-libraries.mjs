// Installs the packages of test/libraries if they are missing or outdated, and makes them available to the examples.
// Run by `npm run test:long`.
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const folder = join(root, "test", "libraries")
const installed = join(folder, "node_modules", ".installed-lock.json")
const lock = readFileSync(join(folder, "package-lock.json"), "utf8")

if (!existsSync(installed) || readFileSync(installed, "utf8") !== lock) {
  const npm = ["ci", "--prefix", folder, "--no-audit", "--no-fund"]
  const { status } = spawnSync("npm", npm, { cwd: root, stdio: ["ignore", "ignore", "inherit"] })
  if (status !== 0) process.exit(status ?? 1)
  writeFileSync(installed, lock)
}

// The examples import these packages by name, so they must be found above the folders of the examples.
const link = join(root, "examples", "node_modules")
if (!existsSync(link)) symlinkSync(join("..", "test", "libraries", "node_modules"), link, "dir")
