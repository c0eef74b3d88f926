import { existsSync } from "node:fs"
import { dirname, join } from "node:path"

const lockFiles = {
  "pnpm-lock.yaml": "pnpm add",
  "yarn.lock": "yarn add",
  "bun.lock": "bun add",
  "bun.lockb": "bun add"
} as const

/**
 * The command of the project's package manager that adds packages. `built`: the package among them, or below them, with an install
 * script, for which pnpm asks. Imports only Node's own modules: it also runs without Effect.
 */
export const installCommand = (folder: string, built: string): string => {
  for (const [file, command] of Object.entries(lockFiles))
    if (existsSync(join(folder, file)))
      return command.startsWith("pnpm") ? `${command} --allow-build=${built}` : command
  return dirname(folder) === folder ? "npm install" : installCommand(dirname(folder), built)
}
