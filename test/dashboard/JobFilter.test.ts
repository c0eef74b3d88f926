import { beforeAll, describe, expect, it, vi } from "vitest"

type Filter = Readonly<Record<string, ReadonlyArray<string>>>

/** The module under test. The pages are compiled with other settings, so its own types cannot be imported. */
interface Filters {
  readonly read: (route: { path: ReadonlyArray<string>; query: URLSearchParams }, preset: Filter) => Filter
  readonly query: (filter: Filter, page: object) => string
  readonly target: (filter: Filter) => object
  readonly kept: (filter: Filter) => object
  readonly without: (filter: Filter, preset: Filter) => Filter
  readonly parts: (filter: Filter) => ReadonlyArray<readonly [string, string]>
  readonly words: (field: string, value: string) => string
  readonly address: (page: string, filter: Filter) => string
  readonly ofJson: (filter: object) => Filter
}

let JobFilter: Filters
let readRoute: (hash: string) => { path: ReadonlyArray<string>; query: URLSearchParams }

beforeAll(async () => {
  vi.stubGlobal("location", new URL("http://127.0.0.1/ui/"))
  vi.stubGlobal("document", { visibilityState: "hidden" })
  JobFilter = await import(new URL("../../src/dashboard/app/JobFilter.ts", import.meta.url).href)
  readRoute = (await import(new URL("../../src/dashboard/app/Route.ts", import.meta.url).href)).read
})

const read = (query: string) =>
  JobFilter.read({ path: ["dead"], query: new URLSearchParams(query) }, { state: ["dead"] })

/** What the page sends to the API. */
const sent = (query: string) => {
  const page = { limit: 50, cursor: null, sort: "created", order: "desc" }
  return [...new URLSearchParams(JobFilter.query(read(query), page)).keys()]
}

describe("the filter of a job list", () => {
  it("is read from the address, without the parameters of the page", () => {
    const filter = read("queue=a,b&kind=c,d&search=&sort=due&order=asc&cursor=x&within=1h")
    expect(filter).toEqual({ queue: ["a", "b"], kind: ["c,d"], within: ["1h"], state: ["dead"] })
    expect(sent("queue=a&within=1h")).toEqual(["queue", "state", "since", "limit", "sort", "order"])
  })

  it("keeps what it cannot read, so that the API refuses it instead of returning more jobs", () => {
    const filter = read("deadReason=poison&within=3600")
    expect(sent("deadReason=poison&within=3600")).toEqual(expect.arrayContaining(["deadReason", "within"]))
    expect(JobFilter.target(filter)).toEqual({ deadReason: "poison", within: "3600", state: "dead" })
    const asked = JobFilter.without(filter, { state: ["dead"] })
    const chips = JobFilter.parts(asked).map(([field, value]) => JobFilter.words(field, value))
    expect(chips).toEqual(["enqueued in the last 3600", "deadReason poison"])
    expect(JobFilter.address("dead", JobFilter.ofJson({ deadReason: "poison" }))).toBe("#/dead?deadReason=poison")
  })

  it("has all that follows the first question mark of the address", () => {
    const route = readRoute("#/dead?text=what?&queue=billing")
    expect(route.path).toEqual(["dead"])
    expect(JobFilter.read(route, {})).toEqual({ text: ["what?"], queue: ["billing"] })
  })

  it("sends a long number of the payload as it was typed, or not at all", () => {
    const filter: Filter = { payload: ['{"id": 9007199254740993}'] }
    const page = { limit: 50, cursor: null, sort: "created", order: "desc" }
    expect(new URLSearchParams(JobFilter.query(filter, page)).get("payload")).toBe('{"id": 9007199254740993}')
    expect(JobFilter.address("jobs", filter)).toBe(
      `#/jobs?${new URLSearchParams({ payload: filter.payload?.[0] ?? "" })}`
    )
    const refusal =
      "The payload filter contains 9007199254740993, which a 64-bit float cannot hold. Use another field or a smaller number."
    expect(() => JobFilter.target(filter)).toThrow(refusal)
    expect(() => JobFilter.kept(filter)).toThrow(refusal)
    expect(() => JobFilter.target({ payload: ['{"id": -0}'] })).toThrow(
      "The payload filter contains -0, which PostgreSQL stores as 0. Use 0."
    )
    expect(JobFilter.target({ payload: ['{"b": 9007199254740992, "a": 1.50}'] })).toEqual({
      payload: { a: 1.5, b: 9007199254740992 }
    })
  })
})
