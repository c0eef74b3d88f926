// What the packed package contains, and whether it works without this repository.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { must, run } from "../installed.mjs"
import { isExternal, target } from "../site/links.mjs"

/** Limits in bytes, against growth that no change intended. */
export const limits = { packed: 3e6, unpacked: 10.5e6 }

const allowed = [
  /^(package\.json|README\.md|LICENSE|CHANGELOG\.md|SECURITY\.md|SUPPORT\.md)$/,
  /^dist\/[\w/-]+\.(js|cjs)$/,
  /^dist\/types\/[\w/-]+\.d\.ts$/,
  /^dist\/ui\/[\w/.-]+\.(html|js|css|svg)$/,
  /^dist\/THIRD_PARTY_LICENSES\.txt$/,
  /^docs\/(?!adr\/|pictures\/)[\w/-]+\.(md|json|yaml|service|py)$/,
  /^migrations\/(\d{4}_\w+\.sql|schema\.txt|effects\.json)$/
]

const manifestOf = (root) => JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
const targetsOf = (value) => (typeof value === "string" ? [value] : Object.values(value ?? {}).flatMap(targetsOf))
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(2)} MB`

/** Files that must not be there, files that must, and sizes. */
export const contentsOf = (root, { files, size, unpackedSize }) => {
  const names = files.map(({ path }) => path)
  const { bin, exports } = manifestOf(root)
  const needed = [
    ...["README.md", "LICENSE", "CHANGELOG.md", "dist/THIRD_PARTY_LICENSES.txt"],
    ...targetsOf([bin, exports]).map((path) => path.replace(/^\.\//, ""))
  ]
  const stray = names.filter((name) => !allowed.some((pattern) => pattern.test(name)))
  const missing = [...new Set(needed)].filter((name) => !names.includes(name))
  return [
    ...stray.map((name) => `${name} is no file of a release: exclude it in "files" of package.json.`),
    ...missing.map((name) => `${name} is missing: run npm run build, and see "files" of package.json.`),
    ...(size > limits.packed
      ? [`The package has ${megabytes(size)}, and ${megabytes(limits.packed)} are the limit.`]
      : []),
    ...(unpackedSize > limits.unpacked
      ? [`The package has ${megabytes(unpackedSize)} unpacked, and ${megabytes(limits.unpacked)} are the limit.`]
      : [])
  ]
}

/** Parts of the repository that the package leaves out. The registry's page leads there, and so does the website. */
const leftOut =
  /^(docs\/(adr|pictures|recipes)\/|docs\/learn\/(choosing|claim|migrating-|paths|workflow-comparison)|docs\/operate\/(chaos|faults|mutants|scale|soak|speed|versions)\.md|docs\/operate\/[\w-]+\.(json|yaml)$|clients\/|examples(\/|$)|CONTRIBUTING\.md$|CODE_OF_CONDUCT\.md$|Dockerfile$|compose)/

/** Links of packed pages that lead to no packed file. */
export const linksOf = (root, { files }) => {
  const names = files.map(({ path }) => path)
  const isPacked = (file) => names.some((name) => name === file || name.startsWith(`${file.replace(/\/$/, "")}/`))
  return names
    .filter((name) => name.endsWith(".md"))
    .flatMap((page) =>
      [...readFileSync(join(root, page), "utf8").matchAll(/\]\(([^)\s]+)\)/g)]
        .map(([, href]) => href)
        .filter((href) => !isExternal(href) && !href.startsWith("#"))
        .map((href) => ({ href, file: target(page, href).file }))
        .filter(({ file }) => !isPacked(file) && !leftOut.test(file))
        .map(
          ({ href }) =>
            `${page} links to ${href}, which is not in the package: add it to "files" or link to the website.`
        )
    )
}

/** Loads every entry point from an unpacked tarball, beside its peer dependencies and nothing else, and runs the command. */
export const entryPoints = async (root, { tarball }) => {
  const { bin, exports, name, peerDependencies = {}, version } = manifestOf(root)
  const folder = mkdtempSync(join(tmpdir(), "nightshift-entries-"))
  try {
    const modules = join(folder, "node_modules")
    const own = join(modules, name)
    mkdirSync(own, { recursive: true })
    await must(folder, "tar", ["-xzf", tarball, "--strip-components=1", "-C", own])
    for (const peer of Object.keys(peerDependencies)) {
      if (!existsSync(join(root, "node_modules", peer))) continue
      mkdirSync(dirname(join(modules, peer)), { recursive: true })
      symlinkSync(join(root, "node_modules", peer), join(modules, peer))
    }
    writeFileSync(join(folder, "package.json"), '{ "type": "module" }')
    const entries = Object.keys(exports).filter((entry) => !entry.endsWith(".json"))
    const commands = [
      ...entries.map((entry) => ["--input-type=module", "--eval", `await import("${name}${entry.slice(1)}")`]),
      ...Object.values(bin ?? {}).map((file) => [join(own, file), "--version"])
    ]
    const results = await Promise.all(commands.map((args) => run(folder, process.execPath, args)))
    return results.flatMap(({ code, stderr, stdout }, at) => {
      const what =
        entries[at] === undefined
          ? `the command ${Object.keys(bin)[at - entries.length]}`
          : `${name}${entries[at].slice(1)}`
      if (code !== 0) return [`${what} of the packed package does not start: ${stderr.trim()}`]
      if (entries[at] === undefined && !stdout.includes(version))
        return [`${what} says ${stdout.trim()} instead of ${version}.`]
      return []
    })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
