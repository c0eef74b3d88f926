// Errors with the same cause differ in ids, addresses, counts and times. The shape is the first line without those, so
// jobs that died of the same cause share it. PostgreSQL and the memory layer must produce identical shapes, so the
// rules are few and valid in both; each applies to the result of the previous one.

const shapeCharacters = 200

const rules = [
  "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
  "[0-9a-fA-F]{16,}",
  "[0-9]+"
]

const patterns = rules.map((rule) => new RegExp(rule, "g"))

/** Returns the shape of an error; empty without an error. */
export const errorShape = (text: string | undefined): string => {
  const line = [...((text ?? "").split("\n")[0] ?? "")].slice(0, shapeCharacters).join("")
  return patterns.reduce((shape, pattern) => shape.replace(pattern, "#"), line)
}

export const errorShapeSql = (column: string): string =>
  rules.reduce(
    (inner, rule) => `regexp_replace(${inner}, '${rule}', '#', 'g')`,
    `left(split_part(coalesce(${column}, ''), E'\\n', 1), ${shapeCharacters})`
  )
