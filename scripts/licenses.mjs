// The licences of the packages that a build bundles, from the inputs that the bundlers report.
import { readdirSync, readFileSync } from "node:fs"
import { join, resolve } from "node:path"

/** The folder of the package that a bundled file belongs to, or undefined for a file of this repository. */
const packageOf = (file) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file.replaceAll("\\", "/"))?.[1]

const licenseFile = /^(licen[cs]e|copying|notice)/i

/** Some packages name the MIT licence and their author but have no file with its text, which is the same as this repository's. */
const textOfMit = (root, author) => {
  const [, terms] = readFileSync(join(root, "LICENSE"), "utf8").split(/^Copyright .*$/m)
  return `MIT License\n\nCopyright (c) ${author}\n\n${terms.trim()}`
}

const textOf = (root, folder, { author, license, name, version }) => {
  const files = readdirSync(folder).filter((entry) => licenseFile.test(entry))
  if (files.length > 0) return files.map((file) => readFileSync(join(folder, file), "utf8").trim()).join("\n\n")
  const holder = author?.name ?? author
  if (license === "MIT" && holder !== undefined) return textOfMit(root, holder)
  throw new Error(`${name}@${version} is bundled and has no licence text (${license}): do not bundle it.`)
}

/** Name, version, licence and its text, for each package that has one of these files. */
export const licensesOf = (root, files) => {
  const folders = new Set(files.flatMap((file) => packageOf(resolve(root, file)) ?? []))
  return [...folders]
    .map((folder) => {
      const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"))
      const { license, name, version } = manifest
      return { name, version, license, text: textOf(root, folder, manifest) }
    })
    .sort((a, b) => a.name.localeCompare(b.name) || a.version.localeCompare(b.version))
}

/** One text of all licences: packages with the same text share it. */
export const notices = (licenses) => {
  const groups = new Map()
  for (const { license, name, text, version } of licenses) {
    groups.set(text, [...(groups.get(text) ?? []), `${name}@${version} (${license})`])
  }
  const parts = [...groups].map(([text, names]) => `${"-".repeat(80)}\n${names.join("\n")}\n\n${text}\n`)
  return `Nightshift contains code of the following packages.\n\n${parts.join("\n")}`
}
