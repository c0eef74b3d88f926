// What a release needs. Each check returns the problems that it found, each with what to do; none means that it passed.
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { isDeepStrictEqual } from "node:util"
import { contentsOf, entryPoints, linksOf } from "./package.mjs"
import { git, problemsOfNotes } from "./plan.mjs"
import { lintWorkflows } from "./workflows.mjs"

const read = (root, file) => readFileSync(join(root, file), "utf8")
const tracked = (root, ...patterns) =>
  git(root, "ls-files", "--", ...patterns)
    .split("\n")
    .filter(Boolean)
const tags = (root) => git(root, "tag", "--list", "v*").split("\n").filter(Boolean)

const workTree = ({ root }) => {
  const changed = git(root, "status", "--porcelain")
  return changed === "" ? [] : [`The work tree has changes: commit or remove them.\n${changed}`]
}

const branch = ({ isTagged, root }) => {
  const name = isTagged ? "main" : git(root, "branch", "--show-current")
  return name === "main" ? [] : [`A release is made on main, and this is ${name || "no branch"}: run git switch main.`]
}

const tag = ({ isTagged, root, version }) => {
  const name = `v${version}`
  if (!isTagged) return tags(root).includes(name) ? [`The tag ${name} exists: choose another version.`] : []
  return git(root, "tag", "--points-at", "HEAD").split("\n").includes(name)
    ? []
    : [`The commit has no tag ${name}: the tag must be the version in package.json.`]
}

/** A tag is checked as it is, and a release may still have to write its version and date. */
const changelog = ({ isTagged, plan, version }) => [
  ...problemsOfNotes(plan, version),
  ...(isTagged && plan.changes.size > 0
    ? [`${[...plan.changes.keys()].join(" and ")} lack the version or the date: tag a commit made by npm run release.`]
    : [])
]

/** Files that name the address of the repository. */
const addressed = [
  ...["package.json", "package-lock.json", "*.md", "*/go.mod"],
  ...[".github/CODEOWNERS", ".github/ISSUE_TEMPLATE"]
]
const placeholder = /\bOWNER\b/
const placeholders = ({ root }) => {
  const lines = tracked(root, ...addressed)
    .filter((file) => !["CHANGELOG.md", "CONTRIBUTING.md"].includes(file) && !file.startsWith("docs/"))
    .flatMap((file) =>
      read(root, file)
        .split("\n")
        .flatMap((line, at) => (placeholder.test(line) ? [`  ${file}:${at + 1}: ${line.trim()}`] : []))
    )
  return lines.length === 0
    ? []
    : [`Replace OWNER with the account that owns the repository, in all of these:\n${lines.join("\n")}`]
}

const groups = ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"]
const lockFiles = ({ root }) =>
  tracked(root, "package-lock.json", "*/package-lock.json").flatMap((file) => {
    const folder = file.slice(0, -"package-lock.json".length)
    const manifest = JSON.parse(read(root, `${folder}package.json`))
    const locked = JSON.parse(read(root, file)).packages[""]
    const differ = ["version", ...groups].filter((key) => !isDeepStrictEqual(manifest[key], locked[key]))
    return differ.length === 0
      ? []
      : [
          `${file} differs from package.json in ${differ.join(", ")}: run npm install --package-lock-only in ${folder || "."}`
        ]
  })

/** Databases have applied what a release contains: a changed file would never run there. */
const migrations = ({ root }) =>
  tags(root).flatMap((name) =>
    git(root, "ls-tree", "--name-only", name, "migrations/")
      .split("\n")
      .filter((file) => file.endsWith(".sql"))
      .filter(
        (file) => !existsSync(join(root, file)) || git(root, "show", `${name}:${file}`) !== read(root, file).trimEnd()
      )
      .map((file) => `${file} differs from that of ${name}: restore it and add a new migration.`)
  )

const readme = ({ root }) => {
  const lines = read(root, "README.md").trimEnd().split("\n").length
  return lines <= 150 ? [] : [`README.md has ${lines} lines, and 150 are the limit: move a part to docs/.`]
}

const site = async () => {
  // Installs the packages of the website when it is loaded.
  const { build } = await import("../site/build.mjs")
  const folder = mkdtempSync(join(tmpdir(), "nightshift-site-"))
  try {
    const { broken } = await build(folder)
    return broken.map((link) => `Broken link on the website: ${link}`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Checks that read files and git. `root` is a clone; the others need its packages and its build. */
export const quickChecks = {
  "clean work tree": workTree,
  branch,
  tag,
  changelog,
  placeholders,
  "lock files": lockFiles,
  migrations,
  README: readme
}

/** All checks, in the order in which they are shown. */
export const checks = {
  ...quickChecks,
  "package contents": ({ packed, root }) => contentsOf(root, packed),
  "links in the package": ({ packed, root }) => linksOf(root, packed),
  "entry points": ({ packed, root }) => entryPoints(root, packed),
  website: site,
  workflows: ({ root }) => lintWorkflows(root)
}

/** Runs checks one after another. A check that throws has failed. */
export const run = async (chosen, context, report = () => {}) => {
  const failed = []
  for (const [name, check] of Object.entries(chosen)) {
    let problems
    try {
      problems = await check(context)
    } catch (error) {
      problems = [`The check could not run: ${error.stderr || error.message}`]
    }
    report(name, problems)
    failed.push(...problems.map((problem) => ({ name, problem })))
  }
  return failed
}
