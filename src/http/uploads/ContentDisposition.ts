const parameter = /; *([!#$%&'*+.^_`|~\w-]+) *= *(?:"((?:[^"\\]|\\.)*)"|([^;\s"]*)) */suy

/** RFC 5987, as in `UTF-8''na%C3%AFve.txt`; nothing when it is not in that form. */
const decodeExtended = (value: string): string | undefined => {
  const [, encoded] = /^utf-8'[^']*'(.*)$/is.exec(value) ?? []
  try {
    return encoded === undefined ? undefined : decodeURIComponent(encoded)
  } catch {
    return undefined
  }
}

/** What a part of a form says of itself. */
export interface FormPart {
  readonly name: string
  readonly filename: string | undefined
}

/** The name of a form's field and of its file; nothing when the header is no form part's. Browsers send plain UTF-8. */
export const parse = (header: string): FormPart | undefined => {
  const type = /^form-data */i.exec(header)
  if (type === null) return undefined
  const parameters = new Map<string, string>()
  parameter.lastIndex = type[0].length
  let end = parameter.lastIndex
  for (let match = parameter.exec(header); match !== null; match = parameter.exec(header)) {
    const [, name = "", quoted, plain] = match
    // Only a quote is ever escaped in practice: a backslash belongs to a path of Windows.
    parameters.set(name.toLowerCase(), quoted?.replaceAll('\\"', '"') ?? plain ?? "")
    end = parameter.lastIndex
  }
  const name = parameters.get("name")
  if (name === undefined || header.slice(end).trim() !== "") return undefined
  return { name, filename: decodeExtended(parameters.get("filename*") ?? "") ?? parameters.get("filename") }
}
