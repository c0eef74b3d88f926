// The packages that build the site. They have their own lock file, because the product does not need them.
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { importFrom, installLocked } from "../locked.mjs"

const folder = fileURLToPath(new URL("./tools", import.meta.url))
installLocked(folder)

/** Imports one of the packages. */
export const tool = (name) => importFrom(folder, name)

/** MiniSearch as a module for browsers. */
export const miniSearch = readFileSync(
  new URL("./tools/node_modules/minisearch/dist/es/index.js", import.meta.url),
  "utf8"
)
