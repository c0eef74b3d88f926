import { Option } from "effect"

const units = { b: 1, kib: 1024, mib: 1024 ** 2, gib: 1024 ** 3, tib: 1024 ** 4, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12 }

const form = /^(\d+(?:\.\d+)?) ?([kmgt]?i?b)?$/

export const expected = "a size like 25MiB, 500kB or 26214400"

/**
 * Parses a size like `25MiB`, `1.5GB` or `26214400` into bytes. Returns none for any other text and for sizes below 1
 * byte.
 */
export const parse = (text: string): Option.Option<number> => {
  const [, amount, unit = "b"] = form.exec(text.trim().toLowerCase()) ?? []
  const factor = units[unit as keyof typeof units]
  if (amount === undefined || factor === undefined) return Option.none()
  const bytes = Math.round(Number(amount) * factor)
  return bytes >= 1 && Number.isSafeInteger(bytes) ? Option.some(bytes) : Option.none()
}

/** Formats a size for people: `25 MiB`, `1.5 KiB`, `12 B`. */
export const format = (bytes: number): string => {
  const names = ["B", "KiB", "MiB", "GiB", "TiB"]
  let amount = bytes
  let index = 0
  while (amount >= 1024 && index < names.length - 1) {
    amount /= 1024
    index += 1
  }
  const shown = index === 0 || Number.isInteger(amount) ? String(amount) : amount.toFixed(1).replace(/\.0$/, "")
  return `${shown} ${names[index]}`
}
