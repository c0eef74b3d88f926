import * as Filename from "../../uploads/Filename.js"

const parameter = /; *([!#$%&'*+.^_`|~\w-]+) *= *(?:"((?:[^"\\]|\\.)*)"|([^;\s"]*)) */suy

/** Decodes an RFC 5987 value such as `UTF-8''na%C3%AFve.txt`; undefined if malformed. */
const decodeExtended = (value: string): string | undefined => {
  const [, charset = "", encoded = ""] = /^(utf-8|iso-8859-1)'[^']*'(.*)$/is.exec(value) ?? []
  if (charset === "") return undefined
  if (charset.toLowerCase() === "iso-8859-1") {
    return encoded.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  }
  try {
    return decodeURIComponent(encoded)
  } catch {
    return undefined
  }
}

/**
 * Browsers percent-encode only quotes and line breaks, as `%22`, `%0D` and `%0A` (HTML, "multipart/form-data encoding
 * algorithm"). Older programs write `\"`. Other backslashes are part of Windows paths.
 */
const decodeQuoted = (value: string): string =>
  value.replace(/\\"|%(22|0D|0A)/gi, (_, hex?: string) =>
    hex === undefined ? '"' : String.fromCharCode(Number.parseInt(hex, 16))
  )

/** Field name and file name of a form part. */
export interface FormPart {
  readonly name: string
  readonly filename: string | undefined
}

/** Parses the header of a form part; undefined if it is not one. Browsers send names as plain UTF-8. */
export const parse = (header: string): FormPart | undefined => {
  const type = /^form-data */i.exec(header)
  if (type === null) return undefined
  const parameters = new Map<string, string>()
  parameter.lastIndex = type[0].length
  let end = parameter.lastIndex
  for (let match = parameter.exec(header); match !== null; match = parameter.exec(header)) {
    const [, name = "", quoted, plain] = match
    parameters.set(name.toLowerCase(), quoted === undefined ? (plain ?? "") : decodeQuoted(quoted))
    end = parameter.lastIndex
  }
  const name = parameters.get("name")
  if (name === undefined || header.slice(end).trim() !== "") return undefined
  return { name, filename: decodeExtended(parameters.get("filename*") ?? "") ?? parameters.get("filename") }
}

/** Encodes a value by RFC 5987: UTF-8 with all characters except `attr-char` percent-encoded. */
const encodeExtended = (value: string): string =>
  encodeURIComponent(value).replace(/['()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)

/**
 * Formats an attachment header (RFC 6266): `filename*` has the original name, `filename` an ASCII fallback for older
 * clients.
 */
export const attachment = (filename: string): string => {
  const safe = Filename.sanitize(filename)
  const original = Filename.original(filename)
  return `attachment; filename="${safe}"${original === safe ? "" : `; filename*=UTF-8''${encodeExtended(original)}`}`
}
