// Installs the packages of test/libraries, of the website and of the release checks if they are missing or outdated, and makes the
// first available to the examples. Run by `npm run test:long`.
import { existsSync, symlinkSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { installLocked } from "./locked.mjs"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
for (const folder of ["test/libraries", "test/libraries/prisma", "scripts/site/tools", "scripts/release/tools"])
  installLocked(join(root, folder))

// The examples import these packages by name, so they must be found above the folders of the examples.
const link = join(root, "examples", "node_modules")
if (!existsSync(link)) symlinkSync(join("..", "test", "libraries", "node_modules"), link, "dir")
