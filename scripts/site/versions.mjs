// `node scripts/site/versions.mjs [folder]`: adds earlier releases to the built site, each built from its tag into a folder such as
// site/v0.1.0. The header of every page then switches between them.
import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { fileURLToPath } from "node:url"

const numbers = (version) => version.split(".").map(Number)
const newer = (a, b) => {
  const at = a.findIndex((number, index) => number !== b[index])
  return at < 0 ? 0 : b[at] - a[at]
}

/** The releases before a version: the last one of each minor version, newest first. */
export const earlierThan = (version, tags) => {
  const [major, minor] = numbers(version)
  const minors = new Set([`${major}.${minor}`])
  return tags
    .flatMap((tag) => /^v(\d+\.\d+\.\d+)$/.exec(tag)?.[1] ?? [])
    .map(numbers)
    .filter((release) => newer(release, numbers(version)) > 0)
    .sort(newer)
    .filter(([a, b]) => !minors.has(`${a}.${b}`) && minors.add(`${a}.${b}`))
    .map((release) => release.join("."))
}

/** Tells the pages of each version where the others are. */
const writeVersions = (folder, current, earlier) => {
  const versions = [{ version: current, path: "" }, ...earlier.map((version) => ({ version, path: `v${version}/` }))]
  writeFileSync(join(folder, "versions.json"), JSON.stringify(versions))
  const fromBelow = JSON.stringify(versions.map(({ path, version }) => ({ version, path: `../${path}` })))
  for (const version of earlier) writeFileSync(join(folder, `v${version}`, "versions.json"), fromBelow)
}

/** Builds the earlier releases of a repository into the folder of its site. Returns their versions. */
export const addVersions = (root, folder) => {
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
  const run = (cwd, file, ...args) =>
    execFileSync(file, args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] })
  const earlier = earlierThan(version, run(root, "git", "tag", "--list").split("\n"))
  for (const release of earlier) {
    const work = mkdtempSync(join(tmpdir(), "nightshift-version-"))
    try {
      run(root, "git", "worktree", "add", "--detach", "--force", work, `v${release}`)
      run(work, "npm", "ci", "--no-audit", "--no-fund")
      run(work, "npm", "run", "site", "--", join(folder, `v${release}`))
    } finally {
      rmSync(work, { recursive: true, force: true })
      run(root, "git", "worktree", "prune")
    }
  }
  writeVersions(folder, version, earlier)
  return earlier
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = fileURLToPath(new URL("../..", import.meta.url))
  const added = addVersions(root, resolve(process.argv[2] ?? join(root, "site")))
  console.log(added.length === 0 ? "No earlier release." : `Added ${added.join(", ")}.`)
}
