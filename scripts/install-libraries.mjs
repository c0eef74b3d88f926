// Installs the packages of test/libraries and of the website if they are missing or outdated, and makes the former
// available to the examples. Run by `npm run test:long`.
import { existsSync, symlinkSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { installLocked } from "./locked.mjs"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
installLocked(join(root, "test", "libraries"))
installLocked(join(root, "scripts", "site", "tools"), "--ignore-scripts")

// The examples import these packages by name, so they must be found above the folders of the examples.
const link = join(root, "examples", "node_modules")
if (!existsSync(link)) symlinkSync(join("..", "test", "libraries", "node_modules"), link, "dir")
