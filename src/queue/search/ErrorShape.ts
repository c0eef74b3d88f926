// Errors of one cause differ in ids, addresses, counts and times. Their shape is the first line with all of that taken out,
// and jobs that died of the same cause share it. PostgreSQL and memory must agree on it to the letter, so the rules are few
// and mean the same to both: each is applied to what the one before has left.

const shapeCharacters = 200

const rules = [
  "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
  "[0-9a-fA-F]{16,}",
  "[0-9]+"
]

const patterns = rules.map((rule) => new RegExp(rule, "g"))

/** The shape of an error's text; empty where there is none. */
export const errorShape = (text: string | undefined): string => {
  const line = [...((text ?? "").split("\n")[0] ?? "")].slice(0, shapeCharacters).join("")
  return patterns.reduce((shape, pattern) => shape.replace(pattern, "#"), line)
}

/** The same in SQL, over a column. */
export const errorShapeSql = (column: string): string =>
  rules.reduce(
    (inner, rule) => `regexp_replace(${inner}, '${rule}', '#', 'g')`,
    `left(split_part(coalesce(${column}, ''), E'\\n', 1), ${shapeCharacters})`
  )
