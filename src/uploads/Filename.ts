/** How long a file's name may be. */
export const mostCharacters = 100

const mostExtension = 16

/** A name is cut before anything looks at it: nobody's file is called ten kilobytes. */
const mostRead = 1024

const splitExtension = (name: string): readonly [stem: string, extension: string] => {
  const dot = name.lastIndexOf(".")
  return dot > 0 && name.length - dot <= mostExtension ? [name.slice(0, dot), name.slice(dot)] : [name, ""]
}

/** Without the dots around it. A loop: `/\.+$/` tries each dot of a long run as the first of the last one. */
const withoutDots = (name: string): string => {
  let from = 0
  let to = name.length
  while (from < to && name[from] === ".") from += 1
  while (to > from && name[to - 1] === ".") to -= 1
  return name.slice(from, to)
}

/**
 * A name that is safe on every system, from whatever a client calls its file: letters, digits, `_`, `.` and `-`, at most a
 * hundred, with its extension, never a path and never hidden.
 */
export const sanitize = (given: string): string => {
  // The beginning may be a long path and the end holds the extension, so it is the end that is kept. Compatibility forms
  // come apart first: a full-width slash or a dot leader must be seen for what a file system may make of it.
  const plain = given.slice(-mostRead).normalize("NFKD").replace(/\p{M}/gu, "")
  const base = plain.split(/[/\\]/).at(-1) ?? ""
  const safe = withoutDots(base.replace(/[^A-Za-z0-9._-]/gu, "_"))
  if (safe === "") return "file"
  const [stem, extension] = splitExtension(safe)
  return `${stem.slice(0, mostCharacters - extension.length)}${extension}`
}
