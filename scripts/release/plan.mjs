// What a release writes: its version, and the date of its section in the changelog.
import { execFileSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"

/** Runs git in a folder and returns what it prints. */
export const git = (root, ...args) =>
  execFileSync("git", args, { cwd: root, encoding: "utf8", stdio: "pipe" }).trimEnd()

const heading = /^## \[([^\]]+)\](?: - (.+))?$/
const isDate = (text) => /^\d{4}-\d\d-\d\d$/.test(text ?? "") && !Number.isNaN(Date.parse(text))

/** The sections of a changelog, in its order: name, date and text of each. */
const sectionsOf = (changelog) => {
  const sections = []
  for (const line of changelog.split("\n")) {
    const [, name, date] = heading.exec(line) ?? []
    if (name !== undefined) sections.push({ name, date, lines: [] })
    else sections.at(-1)?.lines.push(line)
  }
  return sections.map(({ date, lines, name }) => ({ name, date, text: lines.join("\n").trim() }))
}

const withVersion = (text, version) => {
  const manifest = JSON.parse(text)
  const isLock = manifest.packages !== undefined
  const changed = { ...manifest, version }
  if (isLock) changed.packages = { ...manifest.packages, "": { ...manifest.packages[""], version } }
  return `${JSON.stringify(changed, null, 2)}\n`
}

/** The manifest of an example, which needs this release: `^0.1.0` would not install 0.2.0. */
const withDependency = (text, name, version) => {
  const manifest = JSON.parse(text)
  const dependencies = { ...manifest.dependencies, [name]: `^${version}` }
  return `${JSON.stringify({ ...manifest, dependencies }, null, 2)}\n`
}

/**
 * What a release of `version` on `date` writes: the version into package.json, the lock file and the examples, and the date into
 * the changelog.
 * Entries under "Unreleased" become the section of the version, unless it has one.
 */
export const planOf = (root, version, date) => {
  const read = (file) => readFileSync(join(root, file), "utf8")
  const before = read("CHANGELOG.md")
  const known = sectionsOf(before).find(({ name }) => name === version)
  const dated = `## [${version}] - ${known?.date ?? date}`
  const changelog =
    known === undefined
      ? before.replace("## [Unreleased]", `## [Unreleased]\n\n${dated}`)
      : before.replace(/^## \[.+$/gm, (line) => (heading.exec(line)?.[1] === version ? dated : line))
  const files = new Map([["CHANGELOG.md", changelog]])
  for (const file of ["package.json", "package-lock.json"]) {
    if (JSON.parse(read(file)).version !== version) files.set(file, withVersion(read(file), version))
  }
  const { name: own } = JSON.parse(read("package.json"))
  for (const file of git(root, "ls-files", "--", "examples/*/package.json").split("\n").filter(Boolean)) {
    const wanted = JSON.parse(read(file)).dependencies?.[own]
    if (wanted !== undefined && wanted !== `^${version}`) files.set(file, withDependency(read(file), own, version))
  }
  const sections = sectionsOf(changelog)
  return {
    changes: new Map([...files].filter(([file, text]) => text !== read(file))),
    notes: sections.find(({ name }) => name === version),
    left: sections.find(({ name }) => name === "Unreleased")?.text ?? ""
  }
}

/** The section as text of a release on GitHub, where relative links lead nowhere. */
export const releaseNotes = (root, version, { notes }) => {
  const { repository } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
  const files = `${repository.url.replace(/^git\+|\.git$/g, "")}/blob/v${version}`
  return notes?.text.replace(/\]\((?!https?:)([^)]+)\)/g, `](${files}/$1)`)
}

/** What is wrong with the section of a release. */
export const problemsOfNotes = ({ left, notes }, version) => {
  if (notes === undefined)
    return [`CHANGELOG.md has neither a section [${version}] nor one [Unreleased]: write what changed.`]
  return [
    ...(isDate(notes.date)
      ? []
      : [`The date of [${version}] in CHANGELOG.md is ${notes.date}: write it as 2026-01-31, or none.`]),
    ...(notes.text === "" ? [`The section [${version}] of CHANGELOG.md is empty: write what changed.`] : []),
    ...(left === ""
      ? []
      : [
          `The release contains the entries under [Unreleased] of CHANGELOG.md, and its section [${version}] lacks them: move them there, or name a version without a section, as in npm run release -- 0.2.0.`
        ])
  ]
}

/** Writes what the plan changes, commits it and tags the commit. */
export const commit = (root, version, { changes }) => {
  for (const [file, text] of changes) writeFileSync(join(root, file), text)
  if (changes.size > 0) git(root, "commit", "--quiet", "--message", `Release ${version}`, "--", ...changes.keys())
  git(root, "tag", "--annotate", `v${version}`, "--message", `Nightshift ${version}`)
}
