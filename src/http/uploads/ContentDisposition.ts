const parameter = /; *([!#$%&'*+.^_`|~\w-]+) *= *(?:"((?:[^"\\]|\\.)*)"|([^;\s"]*)) */suy

/** Decodes an RFC 5987 value such as `UTF-8''na%C3%AFve.txt`; undefined if malformed. */
const decodeExtended = (value: string): string | undefined => {
  const [, encoded] = /^utf-8'[^']*'(.*)$/is.exec(value) ?? []
  try {
    return encoded === undefined ? undefined : decodeURIComponent(encoded)
  } catch {
    return undefined
  }
}

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
    // In practice only quotes are escaped; any other backslash is part of a Windows path.
    parameters.set(name.toLowerCase(), quoted?.replaceAll('\\"', '"') ?? plain ?? "")
    end = parameter.lastIndex
  }
  const name = parameters.get("name")
  if (name === undefined || header.slice(end).trim() !== "") return undefined
  return { name, filename: decodeExtended(parameters.get("filename*") ?? "") ?? parameters.get("filename") }
}
