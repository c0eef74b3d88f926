// Parses Prometheus' text format, version 0.0.4, and refuses what a scraper would refuse or silently misread.

export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export interface Family {
  readonly name: string
  readonly type: "counter" | "gauge" | "histogram" | "summary" | "untyped"
  readonly help: string | undefined
  readonly samples: ReadonlyArray<Sample>
}

const namePattern = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/
const labelPattern = /^[a-zA-Z_][a-zA-Z0-9_]*$/
const types = ["counter", "gauge", "histogram", "summary", "untyped"] as const

const isType = (text: string): text is Family["type"] => types.some((type) => type === text)

const unescape = (text: string, signs = '\\"') =>
  text.replace(/\\(.?)/g, (_, character: string) => {
    if (character === "n") return "\n"
    if (character !== "" && signs.includes(character)) return character
    throw new Error(`an escape that does not exist: \\${character}`)
  })

const readValue = (text: string): number => {
  if (text === "+Inf") return Number.POSITIVE_INFINITY
  if (text === "-Inf") return Number.NEGATIVE_INFINITY
  if (text === "NaN") return Number.NaN
  if (!/^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i.test(text)) throw new Error(`no number: ${text}`)
  return Number(text)
}

const readLabels = (text: string): Record<string, string> => {
  const labels: Record<string, string> = {}
  let rest = text
  while (rest !== "") {
    const match = /^([^=]+)="((?:[^"\\\n]|\\.)*)"(,(?=.)|$)/.exec(rest)
    if (match === null) throw new Error(`labels that cannot be read: ${rest}`)
    const [whole, name = "", value = ""] = match
    if (!labelPattern.test(name) || name.startsWith("__")) throw new Error(`no label name: ${name}`)
    if (name in labels) throw new Error(`a label twice: ${name}`)
    labels[name] = unescape(value)
    rest = rest.slice(whole.length)
  }
  return labels
}

const readSample = (line: string): Sample => {
  const match = /^([^{ ]+)(?:\{(.*)\})? (\S+)$/.exec(line)
  if (match === null) throw new Error(`no sample: ${line}`)
  const [, name = "", labels = "", value = ""] = match
  if (!namePattern.test(name)) throw new Error(`no metric name: ${name}`)
  return { name, labels: readLabels(labels), value: readValue(value) }
}

const endings: Readonly<Record<string, ReadonlyArray<string>>> = {
  histogram: ["_bucket", "_sum", "_count"],
  summary: ["", "_sum", "_count"]
}

const belongs = (sample: Sample, { name, type }: Pick<Family, "name" | "type">) =>
  (endings[type] ?? [""]).some((ending) => sample.name === `${name}${ending}`)

const keyOf = ({ labels, name }: Sample) =>
  `${name} ${JSON.stringify(Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1)))}`

/** Buckets must increase, end with +Inf, and agree with the count. */
const checkHistogram = ({ name, samples }: Family) => {
  const groups = new Map<string, Array<Sample>>()
  for (const sample of samples) {
    const { le: _, ...labels } = sample.labels
    const key = JSON.stringify(labels)
    groups.set(key, [...(groups.get(key) ?? []), sample])
  }
  for (const [labels, group] of groups) {
    const buckets = group.filter((sample) => sample.name.endsWith("_bucket"))
    const count = group.find((sample) => sample.name.endsWith("_count"))?.value
    const sum = group.find((sample) => sample.name.endsWith("_sum"))?.value
    const bounds = buckets.map((sample) => readValue(sample.labels.le ?? ""))
    const rises = (values: ReadonlyArray<number>, strictly: boolean) =>
      values.every((value, index) => index === 0 || value - (values[index - 1] ?? 0) >= (strictly ? 1e-12 : 0))
    if (!rises(bounds, true)) throw new Error(`${name}${labels}: bounds do not rise`)
    const values = buckets.map(({ value }) => value)
    if (!rises(values, false)) throw new Error(`${name}${labels}: buckets are not cumulative`)
    if (bounds.at(-1) !== Number.POSITIVE_INFINITY) throw new Error(`${name}${labels}: no bucket for everything`)
    if (values.at(-1) !== count) throw new Error(`${name}${labels}: the last bucket is not the count`)
    if (sum === undefined || count === undefined) throw new Error(`${name}${labels}: no sum, or no count`)
    if (Number.isNaN(sum)) throw new Error(`${name}${labels}: a sum that is no number`)
    if (![...values, count].every(Number.isSafeInteger)) throw new Error(`${name}${labels}: counts are whole numbers`)
  }
}

/** The checks of `promtool check metrics` on a parsed page. */
const lint = ({ help, name, samples, type }: Family) => {
  const has = (label: string) => samples.some(({ labels }) => label in labels)
  const isOurs = name.startsWith("nightshift_")
  if (type !== "summary" && has("quantile")) throw new Error(`${name}: only a summary has the label quantile`)
  if (type !== "histogram" && has("le")) throw new Error(`${name}: only a histogram has the label le`)
  if (type === "summary" && !samples.every(({ labels }) => Number(labels.quantile) <= 1)) {
    throw new Error(`${name}: a quantile is a number from 0 to 1`)
  }
  if (help === "" || (isOurs && help === undefined)) throw new Error(`${name}: no help text`)
  if (isOurs && (type === "counter") !== name.endsWith("_total")) throw new Error(`${name}: _total is for counters`)
  if (/_(count|sum|bucket|gauge|counter|summary|histogram)$/.test(name)) throw new Error(`${name}: a name for samples`)
  if (/[a-z][A-Z]/.test(name) || /_(ms|millis|milliseconds|minutes|hours|kib|mib|percent)(_|$)/.test(name)) {
    throw new Error(`${name}: snake_case and base units`)
  }
}

const check = (family: Family, families: ReadonlyMap<string, Family>) => {
  const { name, samples, type } = family
  lint(family)
  if (type === "histogram") checkHistogram(family)
  if (type === "counter" && !samples.every(({ value }) => value >= 0 && Number.isFinite(value))) {
    throw new Error(`${name}: a counter below zero, or without end`)
  }
  // A histogram's sample names must not be another family's.
  for (const ending of endings[type] ?? []) {
    if (ending !== "" && families.has(`${name}${ending}`)) throw new Error(`${name}${ending}: of two families`)
  }
}

/** Every family of a page by name; throws at the first error. */
export const parse = (text: string): ReadonlyMap<string, Family> => {
  if (!text.endsWith("\n")) throw new Error("the last line does not end")
  const families = new Map<string, Family & { samples: Array<Sample> }>()
  const seen = new Set<string>()
  const helps = new Map<string, string>()
  let announced: string | undefined
  let current: (Family & { samples: Array<Sample> }) | undefined
  for (const line of text.slice(0, -1).split("\n")) {
    const comment = /^# (HELP|TYPE) (\S+) ?(.*)$/.exec(line)
    if (comment !== null) {
      const [, word, name = "", rest = ""] = comment
      if (!namePattern.test(name)) throw new Error(`no metric name: ${name}`)
      if (word === "HELP") {
        if (helps.has(name)) throw new Error(`HELP twice: ${name}`)
        if (families.has(name)) throw new Error(`HELP after TYPE: ${name}`)
        helps.set(name, unescape(rest, "\\"))
        announced = name
        continue
      }
      if (announced !== undefined && announced !== name) throw new Error(`HELP without TYPE: ${announced}`)
      announced = undefined
      if (!isType(rest)) throw new Error(`no type: ${rest}`)
      if (families.has(name)) throw new Error(`TYPE twice: ${name}`)
      current = { name, type: rest, help: helps.get(name), samples: [] }
      families.set(name, current)
      continue
    }
    if (line.startsWith("#")) continue
    if (announced !== undefined) throw new Error(`HELP without TYPE: ${announced}`)
    const sample = readSample(line)
    if (current === undefined || !belongs(sample, current)) throw new Error(`out of place: ${line}`)
    if (seen.has(keyOf(sample))) throw new Error(`a series twice: ${line}`)
    seen.add(keyOf(sample))
    current.samples.push(sample)
  }
  for (const family of families.values()) check(family, families)
  return families
}

/** Sum of a metric's samples with these labels. */
export const total = (
  families: ReadonlyMap<string, Family>,
  name: string,
  labels: Readonly<Record<string, string>> = {}
): number =>
  [...families.values()]
    .flatMap(({ samples }) => samples)
    .filter((sample) => sample.name === name)
    .filter((sample) => Object.entries(labels).every(([label, value]) => sample.labels[label] === value))
    .reduce((sum, { value }) => sum + value, 0)
