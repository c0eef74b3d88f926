// Follows the imports of built type declarations.
import { readFileSync } from "node:fs"
import { dirname, resolve } from "node:path"

const comments = /\/\*[\s\S]*?\*\//g
/** Matches `from "x"`, `import "x"` and `import("x")`. */
const imports = /(?:\bfrom|\bimport)\s*\(?\s*"([^"]+)"/g

/** Returns the declarations that are reachable from these, each with the packages that it imports. */
export const reachable = (entries) => {
  const found = new Map()
  const visit = (file) => {
    if (found.has(file)) return
    const packages = []
    found.set(file, packages)
    for (const [, name] of readFileSync(file, "utf8").replaceAll(comments, "").matchAll(imports)) {
      if (name.startsWith(".")) visit(resolve(dirname(file), name.replace(/\.js$/, ".d.ts")))
      else packages.push(name)
    }
  }
  for (const entry of entries) visit(resolve(entry))
  return found
}
