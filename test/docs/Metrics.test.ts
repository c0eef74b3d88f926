import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { parse } from "yaml"
import * as Nightshift from "../support/Nightshift.js"

const src = join(Nightshift.root, "src")
const operate = join(Nightshift.root, "docs", "operate")
const declaration = /MetricSpec\.(?:counter|gauge|histogram)\(\s*"(\w+)"/g

/** Every metric that the code declares. */
const declared = () =>
  readdirSync(src, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .flatMap((file) => [...readFileSync(join(src, file), "utf8").matchAll(declaration)])
    .map(([, name]) => `nightshift_${name}`)

describe("docs/operate/metrics.md", () => {
  it("explains every existing metric", () => {
    const page = readFileSync(join(Nightshift.root, "docs", "operate", "metrics.md"), "utf8")
    const documented = new Set([...page.matchAll(/^\| `(nightshift_\w+)/gm)].map(([, name]) => name))
    expect(declared().length).toBeGreaterThan(30)
    expect(declared().filter((name) => !documented.has(name))).toEqual([])
  })

  it("has one declaration per metric, so that labels cannot disagree", () => {
    expect(declared().toSorted()).toEqual([...new Set(declared())].toSorted())
  })
})

/** Labels of every scraped metric according to metrics.md; a histogram is scraped as three. */
const scraped = () => {
  const page = readFileSync(join(operate, "metrics.md"), "utf8")
  const labels = new Map<string, ReadonlyArray<string>>()
  for (const [, name = "", given = "", meaning = ""] of page.matchAll(
    /^\| `(nightshift_\w+)(?:\{(.*)\})?` +\| (.*)$/gm
  )) {
    const own = given.split(",").filter((label) => label !== "")
    if (!meaning.startsWith("histogram")) labels.set(name, own)
    else for (const suffix of ["bucket", "sum", "count"]) labels.set(`${name}_${suffix}`, own)
  }
  return labels
}

/** Unknown metrics and labels in an expression. */
const faultsOf = (expression: string, labels: ReadonlyMap<string, ReadonlyArray<string>>): ReadonlyArray<string> => {
  const used = [...expression.matchAll(/(nightshift_\w+)(?:\{(.*?)\})?/g)]
  // Prometheus adds `instance`; `le` belongs to histograms.
  const known = new Set(["instance", "le", ...used.flatMap(([, name = ""]) => labels.get(name) ?? [])])
  const grouped = [...expression.matchAll(/\b(?:by|on) \((.*?)\)/g)].flatMap(([, names = ""]) => names.split(", "))
  return [
    ...(used.length === 0 ? [`${expression} is about nothing of ours`] : []),
    ...used.filter(([, name = ""]) => !labels.has(name)).map(([, name]) => `${name} does not exist`),
    ...used.flatMap(([, name = "", matchers = ""]) =>
      [...matchers.matchAll(/(\w+)\s*(?:=~|!=|=)/g)]
        .filter(([, label = ""]) => !labels.get(name)?.includes(label))
        .map(([, label]) => `${name} has no label ${label}`)
    ),
    ...grouped
      .filter((label) => !known.has(label))
      .map((label) => `${expression} groups by ${label}, which is not there`)
  ]
}

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly labels: { readonly severity: string }
  readonly annotations: { readonly summary: string }
}

describe("docs/operate/alerts.yaml", () => {
  const { groups }: { groups: ReadonlyArray<{ rules: ReadonlyArray<Rule> }> } = parse(
    readFileSync(join(operate, "alerts.yaml"), "utf8")
  )
  const rules = groups.flatMap((group) => group.rules)

  it("uses metrics and labels that exist", () => {
    expect(rules.length).toBeGreaterThan(10)
    expect(rules.flatMap(({ expr }) => faultsOf(expr, scraped()))).toEqual([])
    expect(rules.filter(({ labels }) => !["page", "ticket"].includes(labels.severity))).toEqual([])
    expect(rules.filter(({ annotations }) => annotations.summary === "")).toEqual([])
  })

  it("has one line in monitoring.md per alert that says what to do, and no other line", () => {
    const page = readFileSync(join(operate, "monitoring.md"), "utf8")
    const explained = [...page.matchAll(/^\| `(Nightshift\w+)` +\| \S.* \| \S/gm)].map(([, name]) => name)
    expect(explained.toSorted()).toEqual(rules.map(({ alert }) => alert).toSorted())
  })

  it("reports background loops that keep failing, also those that run every five minutes or every hour", () => {
    const { expr = "" } = rules.find(({ alert }) => alert === "NightshiftLoopFailing") ?? {}
    const limits = [...expr.matchAll(/outcome="error"\}\[(\d+)([mh])\]\)\) > (\d+)/g)]
    const firesFor = (every: number) =>
      limits.some(([, window, unit, limit]) => (Number(window) * (unit === "h" ? 60 : 1)) / every > Number(limit))
    expect([1, 5, 10, 60].filter((every) => !firesFor(every))).toEqual([])
  })
})

describe("docs/operate/grafana-dashboard.json", () => {
  interface Panel {
    readonly id: number
    readonly title: string
    readonly targets?: ReadonlyArray<{ readonly expr: string }>
  }
  const dashboard: { panels: ReadonlyArray<Panel>; templating: { list: ReadonlyArray<{ query: unknown }> } } =
    JSON.parse(readFileSync(join(operate, "grafana-dashboard.json"), "utf8"))

  it("uses metrics and labels that exist, in separate panels", () => {
    const expressions = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
    expect(expressions.length).toBeGreaterThan(20)
    expect(expressions.flatMap((expression) => faultsOf(expression, scraped()))).toEqual([])
    expect(JSON.stringify(dashboard.templating.list)).toContain("label_values(nightshift_jobs, queue)")
    expect(new Set(dashboard.panels.map(({ id }) => id)).size).toBe(dashboard.panels.length)
  })
})
