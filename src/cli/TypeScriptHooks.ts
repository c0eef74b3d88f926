import { existsSync, readFileSync, statSync } from "node:fs"
import type { LoadHook, ResolveHook } from "node:module"
import { join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { createPathsMatcher, getTsconfig, type TsConfigResult } from "get-tsconfig"
import { type OxcError, type TransformOptions, transformSync } from "oxc-transform"

// Node module hooks for TypeScript apps; they run in Node's loader thread. Every TypeScript file is loaded as an ES
// module, whatever its package.json says: a CommonJS module would load a second copy of Effect.

const isTypeScript = (url: string): boolean =>
  url.startsWith("file:") && /\.m?tsx?$/.test(url) && !url.includes("/node_modules/")

const configs = new Map<string, TsConfigResult | null>()

/** Returns the tsconfig.json of a file, for its paths and the options that change the emitted code. */
const configOf = (file: string): TsConfigResult | null => {
  const folder = join(file, "..")
  const known = configs.get(folder)
  if (known !== undefined) return known
  const found = getTsconfig(folder)
  configs.set(folder, found)
  return found
}

const isFile = (path: string): boolean => existsSync(path) && statSync(path).isFile()

/** Resolves a path like the TypeScript compiler: `.js` means `.ts`, and the extension may be missing. */
const sourceOf = (path: string): string | undefined => {
  const withoutExtension = path.replace(/\.([cm]?)jsx?$/, "")
  const extensions = path.endsWith(".mjs") ? [".mts"] : [".ts", ".tsx", ".mts", ".js", ".mjs", ".json"]
  return [
    path,
    ...extensions.map((extension) => withoutExtension + extension),
    ...[".ts", ".tsx", ".js"].map((extension) => join(path, `index${extension}`))
  ].find(isFile)
}

export const resolve: ResolveHook = (specifier, context, nextResolve) => {
  const { parentURL } = context
  // The compiler's runtime helpers are a dependency of this package, not of the user's.
  if (specifier.startsWith("@oxc-project/runtime/")) {
    return nextResolve(specifier, { ...context, parentURL: import.meta.url })
  }
  if (parentURL === undefined || !isTypeScript(parentURL) || specifier.includes(":")) {
    return nextResolve(specifier, context)
  }
  const parent = fileURLToPath(parentURL)
  const isPath = /^(\.{0,2}\/|\.{1,2}$)/.test(specifier)
  const config = isPath ? null : configOf(parent)
  const candidates = isPath
    ? [fileURLToPath(new URL(specifier, parentURL))]
    : ((config === null ? null : createPathsMatcher(config))?.(specifier) ?? [])
  for (const candidate of candidates) {
    const source = sourceOf(candidate)
    if (source !== undefined) return nextResolve(pathToFileURL(source).href, context)
  }
  return nextResolve(specifier, context)
}

/** Formats `file:line:column: message`, the source line, and a caret under the column. */
const describe = (file: string, text: string, { labels, message }: OxcError): string => {
  const { end = 0, start = 0 } = labels[0] ?? {}
  // The compiler reports offsets in UTF-8 bytes.
  const bytes = Buffer.from(text)
  const before = bytes.subarray(0, start).toString().split("\n")
  const number = before.length
  const column = before.at(-1)?.length ?? 0
  const line = text.split(/\r?\n/)[number - 1] ?? ""
  const marked = Math.min(bytes.subarray(start, end).toString().length, line.length - column)
  return [
    `${file}:${number}:${column + 1}: ${message}`,
    `  ${number} | ${line}`,
    `  ${" ".repeat(String(number).length)} | ${line.slice(0, column).replaceAll(/[^\t]/g, " ")}${"^".repeat(Math.max(1, marked))}`
  ].join("\n")
}

const optionsFor = (file: string): TransformOptions => {
  const options = configOf(file)?.config.compilerOptions ?? {}
  return {
    sourcemap: true,
    target: "node20",
    typescript: { onlyRemoveTypeImports: options.verbatimModuleSyntax === true },
    decorator: {
      legacy: options.experimentalDecorators === true,
      emitDecoratorMetadata: options.emitDecoratorMetadata === true
    },
    jsx: {
      runtime: options.jsx === "react" ? "classic" : "automatic",
      ...(options.jsxImportSource === undefined ? {} : { importSource: options.jsxImportSource })
    }
  }
}

export const load: LoadHook = (url, context, nextLoad) => {
  if (!isTypeScript(url)) return nextLoad(url, context)
  const file = fileURLToPath(url)
  const text = readFileSync(file, "utf8")
  const { code, errors, map } = transformSync(file, text, optionsFor(file))
  const [first] = errors
  if (first !== undefined) {
    const error = new Error(describe(file, text, first))
    error.name = "CompileError"
    throw error
  }
  const inline = Buffer.from(JSON.stringify(map)).toString("base64")
  return {
    format: "module",
    shortCircuit: true,
    source: `${code}\n//# sourceMappingURL=data:application/json;base64,${inline}`
  }
}
