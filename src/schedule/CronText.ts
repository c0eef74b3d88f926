import { Either, Schema } from "effect"

/** The expression is malformed, or never fires. */
export class InvalidExpression extends Schema.TaggedError<InvalidExpression>()("InvalidExpression", {
  /** The invalid part: a field such as `minute`, `timezone`, or `expression` for the whole expression. */
  part: Schema.String,
  /** The reason; `message` puts the part in front. */
  reason: Schema.String
}) {
  override get message(): string {
    return `The ${this.part} ${this.reason}.`
  }
}

/** The matching values of each field. */
export interface CronFields {
  readonly second: ReadonlySet<number>
  readonly minute: ReadonlySet<number>
  readonly hour: ReadonlySet<number>
  readonly dayOfMonth: ReadonlySet<number>
  readonly lastDayOfMonth: boolean
  readonly month: ReadonlySet<number>
  /** Sunday is 0. */
  readonly dayOfWeek: ReadonlySet<number>
  /** Which day fields restrict the match. If both are given, a day needs to match only one of them. */
  readonly days: "any" | "ofMonth" | "ofWeek" | "either"
  /** Whether the minute or hour uses `*` or a step. Such an expression is an interval; all others are times of day. */
  readonly isInterval: boolean
}

/** Longer than any reasonable expression. */
const maxCharacters = 256

const macros: Readonly<Record<string, string>> = {
  "@yearly": "0 0 0 1 1 *",
  "@annually": "0 0 0 1 1 *",
  "@monthly": "0 0 0 1 * *",
  "@weekly": "0 0 0 * * 0",
  "@daily": "0 0 0 * * *",
  "@midnight": "0 0 0 * * *",
  "@hourly": "0 0 * * * *",
  "@minutely": "0 * * * * *",
  "@secondly": "* * * * * *",
  "@weekdays": "0 0 0 * * 1-5",
  "@weekends": "0 0 0 * * 0,6"
}

interface FieldRule {
  readonly name: string
  readonly expected: string
  readonly least: number
  readonly most: number
  /** Names of the values, starting with `least`. */
  readonly names: ReadonlyArray<string>
  readonly maxStep: number
  /** Whether the field accepts `L` for the last value. */
  readonly hasLast: boolean
}

const rule = (name: string, least: number, most: number, more: Partial<FieldRule> = {}): FieldRule => ({
  name,
  least,
  most,
  expected: `${least} to ${most}`,
  names: [],
  maxStep: most - least,
  hasLast: false,
  ...more
})

const monthNames = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
const dayNames = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]

const rules = {
  second: rule("second", 0, 59),
  minute: rule("minute", 0, 59),
  hour: rule("hour", 0, 23),
  dayOfMonth: rule("day of month", 1, 31, { expected: "1 to 31, or L for the last", hasLast: true }),
  month: rule("month", 1, 12, { expected: "1 to 12 or JAN to DEC", names: monthNames }),
  dayOfWeek: rule("day of week", 0, 7, { expected: "0 to 7 or SUN to SAT", names: dayNames, maxStep: 6 })
}

const refuse = (part: string, reason: string) => Either.left(new InvalidExpression({ part, reason }))

const quoted = (text: string) => JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text)

/** One list element: `*`, a value or a range, with an optional step. */
const element = /^(?:\*|([a-z]{3}|\d{1,2})(?:-([a-z]{3}|\d{1,2}))?)(?:\/(\d{1,2}))?$/i

const parseValue = ({ least, most, names }: FieldRule, text: string): number | undefined => {
  const named = names.indexOf(text.toLowerCase())
  const value = named >= 0 ? least + named : Number(text)
  return value >= least && value <= most ? value : undefined
}

/** Returns the values of one list element, or undefined if it is malformed. */
const elementOf = (field: FieldRule, text: string): ReadonlyArray<number> | undefined => {
  const match = element.exec(text)
  if (match === null) return undefined
  const [, fromText, toText, stepText] = match
  const step = stepText === undefined ? 1 : Number(stepText)
  const from = fromText === undefined ? field.least : parseValue(field, fromText)
  // A value with a step is an open range: 5/20 means 5-59/20.
  const open = fromText === undefined || stepText !== undefined ? field.most : from
  const to = toText === undefined ? open : parseValue(field, toText)
  if (from === undefined || to === undefined || from > to || step < 1 || step > field.maxStep) return undefined
  return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, index) => from + index * step)
}

const isLast = (text: string) => text.toUpperCase() === "L"

const valuesOf = (field: FieldRule, text: string): Either.Either<ReadonlySet<number>, InvalidExpression> => {
  const values = new Set<number>()
  for (const part of text.split(",")) {
    if (field.hasLast && isLast(part)) continue
    const some = elementOf(field, part)
    if (some === undefined) {
      return refuse(field.name, `must be ${field.expected}, written like *, 5, 1-5, */2 or 1,3,5, got ${quoted(text)}`)
    }
    for (const value of some) values.add(value)
  }
  return Either.right(values)
}

const longestMonths: Readonly<Record<number, number>> = { 2: 29, 4: 30, 6: 30, 9: 30, 11: 30 }

/** Whether at least one of the months has one of the days. An expression for February 30 would never fire. */
const hasMatchingDay = ({ dayOfMonth, days, lastDayOfMonth, month }: CronFields): boolean =>
  days !== "ofMonth" ||
  lastDayOfMonth ||
  [...month].some((number) => [...dayOfMonth].some((day) => day <= (longestMonths[number] ?? 31)))

type Texts = readonly [string, string, string, string, string, string]

/** Splits the expression into six unvalidated field texts, seconds first. */
const split = (given: string): Either.Either<Texts, InvalidExpression> => {
  if (given.length > maxCharacters) return refuse("expression", `must be at most ${maxCharacters} characters long`)
  const text = given.trim()
  const word = text.toLowerCase()
  const macro = Object.hasOwn(macros, word) ? macros[word] : undefined
  if (text.startsWith("@") && macro === undefined) {
    return refuse("expression", `must be one of ${Object.keys(macros).join(", ")}, or five or six fields`)
  }
  const texts = (macro ?? text).split(/[ \t]+/)
  const [a, b, c, d, e, f, ...more] = texts.length === 5 ? ["0", ...texts] : texts
  if (a && b && c && d && e && f && more.length === 0) return Either.right([a, b, c, d, e, f])
  const fields = "minute, hour, day of month, month, day of week"
  const count = text === "" ? 0 : texts.length
  return refuse("expression", `must have five fields (${fields}), or six with seconds first, got ${count}`)
}

const hasStep = (text: string) => /[*/]/.test(text)

/** Parses five fields, six fields with seconds first, or a macro like `@daily`. */
export const parse = (given: string): Either.Either<CronFields, InvalidExpression> =>
  Either.gen(function* () {
    const [seconds, minutes, hours, days, months, weekdays] = yield* split(given)
    const anyOfMonth = days === "*"
    const anyOfWeek = weekdays === "*"
    const fields: CronFields = {
      second: yield* valuesOf(rules.second, seconds),
      minute: yield* valuesOf(rules.minute, minutes),
      hour: yield* valuesOf(rules.hour, hours),
      dayOfMonth: yield* valuesOf(rules.dayOfMonth, days),
      lastDayOfMonth: days.split(",").some(isLast),
      month: yield* valuesOf(rules.month, months),
      dayOfWeek: new Set([...(yield* valuesOf(rules.dayOfWeek, weekdays))].map((day) => day % 7)),
      days: anyOfMonth ? (anyOfWeek ? "any" : "ofWeek") : anyOfWeek ? "ofMonth" : "either",
      isInterval: hasStep(minutes) || hasStep(hours)
    }
    return hasMatchingDay(fields) ? fields : yield* Either.left(neverFires)
  })

const neverFires = new InvalidExpression({
  part: "day of month",
  reason: "does not exist in any of the given months, so the expression would never fire"
})
