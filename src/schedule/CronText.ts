import { CronExpressionParser, type CronFieldCollection } from "cron-parser"
import { Either, Schema } from "effect"

/** An expression that cannot be read, or that would never fire. */
export class InvalidExpression extends Schema.TaggedError<InvalidExpression>()("InvalidExpression", {
  /** Which part of it: `minute`, `timezone`, or `expression` for the whole. */
  part: Schema.String,
  /** What is expected there, as the end of a sentence that begins with the part. */
  reason: Schema.String
}) {
  override get message(): string {
    return `The ${this.part} ${this.reason}.`
  }
}

/** What an expression asks for, by field: the values that match. */
export interface CronFields {
  readonly second: ReadonlySet<number>
  readonly minute: ReadonlySet<number>
  readonly hour: ReadonlySet<number>
  readonly dayOfMonth: ReadonlySet<number>
  readonly lastDayOfMonth: boolean
  readonly month: ReadonlySet<number>
  /** Sunday is 0. */
  readonly dayOfWeek: ReadonlySet<number>
  /** Whether a day must be one of the days of the month, of the week, or (both given) of either. */
  readonly days: "any" | "ofMonth" | "ofWeek" | "either"
}

/** More than the longest expression that somebody can have meant. */
const mostCharacters = 256

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
  /** One element of its list. What else the reader below knows (`H`, `?`, `#`, `W`) is not part of our language. */
  readonly element: RegExp
  readonly mostStep: number
}

const rule = (name: string, expected: string, mostStep: number, value = "\\d{1,2}", alone = ""): FieldRule => ({
  name,
  expected,
  element: new RegExp(`^(?:${alone}(?:\\*|${value}(?:-${value})?)(?:/(\\d{1,2}))?)$`, "i"),
  mostStep
})

const monthName = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
const dayName = "sun|mon|tue|wed|thu|fri|sat"

const rules: ReadonlyArray<FieldRule> = [
  rule("second", "0 to 59", 59),
  rule("minute", "0 to 59", 59),
  rule("hour", "0 to 23", 23),
  rule("day of month", "1 to 31, or L for the last", 30, "\\d{1,2}", "L|"),
  rule("month", "1 to 12 or JAN to DEC", 11, `(?:\\d{1,2}|${monthName})`),
  rule("day of week", "0 to 7 or SUN to SAT", 6, `(?:\\d|${dayName})`)
]

const refuse = (part: string, reason: string) => Either.left(new InvalidExpression({ part, reason }))

const quoted = (text: string) => JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text)

const fits = (field: FieldRule, text: string): boolean =>
  text.split(",").every((element) => {
    const match = field.element.exec(element)
    if (match === null) return false
    const step = match[1] === undefined ? 1 : Number(match[1])
    return step >= 1 && step <= field.mostStep
  })

const read = (texts: ReadonlyArray<string>) =>
  Either.try(() => CronExpressionParser.parse(texts.join(" "), { tz: "UTC", currentDate: 0 }).fields)

const alone = (text: string, place: number) => rules.map((_, other) => (other === place ? text : "*"))

/** The first field that cannot be read, be it alone. */
const faultOf = (texts: ReadonlyArray<string>): InvalidExpression | undefined => {
  for (const [place, field] of rules.entries()) {
    const text = texts[place] ?? ""
    if (fits(field, text) && Either.isRight(read(alone(text, place)))) continue
    const reason = `must be ${field.expected}, written like *, 5, 1-5, */2 or 1,3,5 and each once, not ${quoted(text)}`
    return new InvalidExpression({ part: field.name, reason })
  }
  return undefined
}

const longestMonths: Readonly<Record<number, number>> = { 2: 29, 4: 30, 6: 30, 9: 30, 11: 30 }

/** Whether some month has one of these days: the 30th of February would be waited for without end. */
const comesToPass = ({ dayOfMonth, days, lastDayOfMonth, month }: CronFields): boolean =>
  days !== "ofMonth" ||
  lastDayOfMonth ||
  [...month].some((number) => [...dayOfMonth].some((day) => day <= (longestMonths[number] ?? 31)))

const numbers = (values: ReadonlyArray<number | string>, modulo = 60): ReadonlySet<number> =>
  new Set(values.flatMap((value) => (typeof value === "number" ? [value % modulo] : [])))

const fieldsOf = ({ dayOfMonth, dayOfWeek, hour, minute, month, second }: CronFieldCollection): CronFields => {
  const anyOfWeek = dayOfWeek.isWildcard
  return {
    second: numbers(second.values),
    minute: numbers(minute.values),
    hour: numbers(hour.values),
    dayOfMonth: numbers(dayOfMonth.values),
    lastDayOfMonth: dayOfMonth.hasLastChar,
    month: numbers(month.values),
    dayOfWeek: numbers(dayOfWeek.values, 7),
    days: dayOfMonth.isWildcard ? (anyOfWeek ? "any" : "ofWeek") : anyOfWeek ? "ofMonth" : "either"
  }
}

/** Six texts, seconds first, of which nothing is known but their number. */
const split = (given: string): Either.Either<ReadonlyArray<string>, InvalidExpression> => {
  if (given.length > mostCharacters) return refuse("expression", `must be at most ${mostCharacters} characters long`)
  const text = given.trim()
  const macro = macros[text.toLowerCase()]
  if (text.startsWith("@") && macro === undefined) {
    return refuse("expression", `must be one of ${Object.keys(macros).join(", ")}, or five or six fields`)
  }
  const texts = (macro ?? text).split(/[ \t]+/)
  if (texts.length === 6) return Either.right(texts)
  if (texts.length === 5) return Either.right(["0", ...texts])
  const fields = "minute, hour, day of month, month, day of week"
  const count = text === "" ? 0 : texts.length
  return refuse("expression", `must have five fields (${fields}), or six with seconds first, not ${count}`)
}

/** Reads five fields, six with seconds first, or a macro like `@daily`. */
export const parse = (given: string): Either.Either<CronFields, InvalidExpression> =>
  Either.flatMap(split(given), (texts) => {
    const readable = rules.every((field, place) => fits(field, texts[place] ?? ""))
    const whole = readable ? read(texts) : Either.left(undefined)
    if (Either.isLeft(whole)) return Either.left(faultOf(texts) ?? neverFires)
    const fields = fieldsOf(whole.right)
    return comesToPass(fields) ? Either.right(fields) : Either.left(neverFires)
  })

const neverFires = new InvalidExpression({
  part: "day of month",
  reason: "names days that none of its months has, so it would never fire"
})
