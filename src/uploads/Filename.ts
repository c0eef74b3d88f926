import { truncated } from "../core/Storable.js"

/** Maximum length of an original name in UTF-16 units, which is also a common file system limit. */
export const maxCharacters = 255

/** Maximum length of a safe name. */
const maxSafeCharacters = 100

const maxExtensionCharacters = 16

/** Only the end of a longer name is read: the start may be a long path, and the end has the extension. */
const maxReadCharacters = 1024

const splitExtension = (name: string): readonly [stem: string, extension: string] => {
  const dot = name.lastIndexOf(".")
  return dot > 0 && name.length - dot <= maxExtensionCharacters ? [name.slice(0, dot), name.slice(dot)] : [name, ""]
}

/** Strips leading and trailing dots. A loop, because `/\.+$/` takes quadratic time on a long run of dots. */
const withoutDots = (name: string): string => {
  let from = 0
  let to = name.length
  while (from < to && name[from] === ".") from += 1
  while (to > from && name[to - 1] === ".") to -= 1
  return name.slice(from, to)
}

/** Truncates the stem and keeps the extension. Never splits a surrogate pair. */
const cut = (name: string, most: number): string => {
  if (name.length <= most) return name
  const [stem, extension] = splitExtension(name)
  return `${truncated(stem, most - extension.length)}${extension}`
}

/**
 * Control characters, line separators, unpaired surrogates, and marks that reverse the direction of text, which can
 * display `fdp.exe` as `exe.pdf`. Joiners are kept: Persian words and emoji need them.
 */
const unprintable = /[\p{Cc}\p{Cs}\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu

/**
 * Returns the name as the client sent it, in any script: the last part of a path, at most 255 characters including the
 * extension, with `_` for each unprintable character. May start with a dot and contain spaces and quotes.
 */
export const original = (given: string): string => {
  const base = given.slice(-maxReadCharacters).split(/[/\\]/).at(-1) ?? ""
  const name = cut(base.replace(unprintable, "_"), maxCharacters)
  return /^\.{0,2}$/.test(name) ? "file" : name
}

/** Names that Windows reads as a device, with any extension: such a file would disappear. */
const device = /^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/i

/**
 * Returns a file name that is safe on every system: at most 100 characters out of letters, digits, `_`, `.` and `-`.
 * Keeps the extension. The result is never a path or a device of Windows and never starts or ends with a dot.
 */
export const sanitize = (given: string): string => {
  // NFKD first, because a file system may normalize a full-width slash or a dot leader to `/` or `.`.
  const plain = given.slice(-maxReadCharacters).normalize("NFKD").replace(/\p{M}/gu, "")
  const base = plain.split(/[/\\]/).at(-1) ?? ""
  const safe = withoutDots(base.replace(/[^A-Za-z0-9._-]/gu, "_"))
  if (safe === "") return "file"
  return withoutDots(cut(device.test(safe) ? `_${safe}` : safe, maxSafeCharacters))
}
