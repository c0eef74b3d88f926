/** Maximum length of a file name. */
export const mostCharacters = 100

const mostExtension = 16

/** A longer name is truncated before it is processed. */
const mostRead = 1024

const splitExtension = (name: string): readonly [stem: string, extension: string] => {
  const dot = name.lastIndexOf(".")
  return dot > 0 && name.length - dot <= mostExtension ? [name.slice(0, dot), name.slice(dot)] : [name, ""]
}

/** Strips leading and trailing dots. A loop, because `/\.+$/` takes quadratic time on a long run of dots. */
const withoutDots = (name: string): string => {
  let from = 0
  let to = name.length
  while (from < to && name[from] === ".") from += 1
  while (to > from && name[to - 1] === ".") to -= 1
  return name.slice(from, to)
}

/**
 * Returns a file name that is safe on every system: at most 100 characters out of letters, digits, `_`, `.` and `-`.
 * Keeps the extension. The result is never a path and never starts with a dot.
 */
export const sanitize = (given: string): string => {
  // Keep the end: the start may be a long path, and the end has the extension. NFKD first, because a file system may
  // normalize a full-width slash or a dot leader to `/` or `.`.
  const plain = given.slice(-mostRead).normalize("NFKD").replace(/\p{M}/gu, "")
  const base = plain.split(/[/\\]/).at(-1) ?? ""
  const safe = withoutDots(base.replace(/[^A-Za-z0-9._-]/gu, "_"))
  if (safe === "") return "file"
  const [stem, extension] = splitExtension(safe)
  return `${stem.slice(0, mostCharacters - extension.length)}${extension}`
}
