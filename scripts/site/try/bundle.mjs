// Builds what the page `try.html` loads when a visitor starts it: Nightshift as one file for browsers, and the pages of Mission Control.
import { cpSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { gzipSync } from "node:zlib"
import { build } from "esbuild"
import { withDirectImports } from "../../direct-imports.mjs"
import { licensesOf, notices } from "../../licenses.mjs"

const here = (name) => fileURLToPath(new URL(name, import.meta.url))

/** Node's modules, and packages for servers, come from one file, which has what the page calls. */
const withNodeModules = {
  name: "with-node-modules",
  setup: (bundle) => {
    bundle.onResolve({ filter: /^(node:.*|pg|yaml|@effect\/(platform-node|sql-pg)\/.*|\.\/embedded\/.*)$/ }, () => ({
      path: here("node.mjs")
    }))
  }
}

/** No module of the product does anything but define names, so those that the page does not use are left out. */
const withoutSideEffects = {
  name: "without-side-effects",
  setup: (bundle) => {
    bundle.onResolve({ filter: /^\.{1,2}\/.*\.js$/ }, ({ importer, path, resolveDir }) =>
      /[\\/](src|test)[\\/].*\.ts$/.test(importer)
        ? { path: join(resolveDir, path.replace(/\.js$/, ".ts")), sideEffects: false }
        : undefined
    )
  }
}

/** The packages in the pages of Mission Control. */
const controlPackages = ["@cfworker/json-schema", "preact", "uplot"]

/** Writes the files into a folder. Returns the size of what is loaded, in kB as a server sends it. */
export const bundle = async (folder, { root, version }) => {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: { nightshift: here("main.ts") },
    outdir: folder,
    bundle: true,
    platform: "browser",
    target: "es2022",
    format: "esm",
    minify: true,
    metafile: true,
    logLevel: "warning",
    inject: [here("globals.mjs")],
    define: { "globalThis.nightshiftVersion": JSON.stringify(version) },
    banner: { js: "// The licences of the packages in this file are in licenses.txt." },
    plugins: [withNodeModules, withDirectImports, withoutSideEffects]
  })
  const bundled = [
    ...Object.keys(metafile.inputs),
    ...controlPackages.map((name) => `node_modules/${name}/package.json`)
  ]
  writeFileSync(join(folder, "licenses.txt"), notices(licensesOf(root, bundled)))
  cpSync(join(root, "dist", "ui"), join(folder, "ui"), { recursive: true })
  cpSync(here("control.js"), join(folder, "control.js"))
  const pageFile = join(folder, "ui", "index.html")
  const page = readFileSync(pageFile, "utf8")
  const adapted = page
    .replace('<div id="app"', '<div id="app" data-login=""')
    .replace("<head>", '<head>\n    <script src="../control.js"></script>')
  writeFileSync(pageFile, adapted)
  const loaded = [
    "nightshift.js",
    "control.js",
    ...[...adapted.matchAll(/"\.\/(assets\/[^"]+)"/g)].map(([, file]) => `ui/${file}`)
  ]
  const bytes = loaded.reduce((sum, file) => sum + gzipSync(readFileSync(join(folder, file))).length, 0)
  return { kilobytes: Math.round(bytes / 1000) }
}
