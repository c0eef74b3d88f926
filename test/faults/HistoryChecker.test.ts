import { describe, expect, it } from "@effect/vitest"
import * as Settings from "../../src/cli/Settings.js"
import { defaults } from "./FaultCase.js"
import { type Attempted, check, type Facts, type JobRow, type RunEvent } from "./HistoryChecker.js"
import { cases } from "./Registry.js"

const job = (id: string, more: Partial<Attempted> = {}): Attempted => ({ id, kind: "work", expected: "done", ...more })
const done = (id: string, more: Partial<JobRow> = {}): JobRow => ({
  id,
  status: "done",
  attempt: 1,
  maxAttempts: 5,
  run: `run of ${id}`,
  deadReason: null,
  ...more
})
const ran = (id: string, from: number, to: number): ReadonlyArray<RunEvent> =>
  [
    { event: "start" as const, at: from },
    { event: "end" as const, at: to }
  ].map((each) => ({ ...each, job: id, kind: "work", attempt: 1, run: `run of ${id}`, pid: 1 }))

const facts = (more: Partial<Facts> = {}): Facts => ({
  attempted: [job("a")],
  acknowledged: new Set(["a"]),
  rows: [done("a")],
  events: ran("a", 0, 10),
  committed: [],
  changedAfterEnd: [],
  counted: 1,
  ...more
})

const inOrder = (second: number) =>
  facts({
    attempted: [job("a", { key: "k", n: 1 }), job("b", { key: "k", n: 2 })],
    acknowledged: new Set(["a", "b"]),
    rows: [done("a"), done("b")],
    events: [...ran("a", 0, 10), ...ran("b", second, 30)],
    counted: 2
  })

describe("the history checker", () => {
  it.each([
    ["a job that ran once", facts()],
    ["an enqueue that was never acknowledged and stored nothing", facts({ attempted: [job("a"), job("b")] })],
    ["a transactional job with its effect", facts({ attempted: [job("a", { kind: "once" })], committed: ["a"] })],
    [
      "a job that must die",
      facts({ attempted: [job("a", { expected: "dead" })], rows: [done("a", { status: "dead" })], counted: 0 })
    ],
    ["jobs of a key in order", inOrder(10)],
    ["counts that a killed pod lost", facts({ counted: undefined })]
  ] as ReadonlyArray<[string, Facts]>)("accepts %s", (_, given) => {
    expect(check(given)).toEqual([])
  })

  it.each([
    ["a lost job", facts({ rows: [], counted: 0 }), "acknowledged and is lost"],
    ["a job from nowhere", facts({ attempted: [], acknowledged: new Set() }), "never enqueued"],
    ["a job that never ended", facts({ rows: [done("a", { status: "running" })], counted: 0 }), "never ended"],
    ["a job that died", facts({ rows: [done("a", { status: "dead" })], counted: 0 }), "is dead"],
    ["a result without a run", facts({ events: [] }), "which never ended"],
    ["a result of another job's run", facts({ rows: [done("a", { run: "run of b" })] }), "which never ended"],
    ["too many attempts", facts({ rows: [done("a", { attempt: 6 })] }), "had 6 of 5 attempts"],
    ["an early start", facts({ attempted: [job("a", { runAt: 1_000 })] }), "before its time"],
    ["a change after the end", facts({ changedAfterEnd: ["a"] }), "changed after it had ended"],
    [
      "an effect committed twice",
      facts({ attempted: [job("a", { kind: "once" })], committed: ["a", "a"] }),
      "2 committed effects"
    ],
    ["an effect that is missing", facts({ attempted: [job("a", { kind: "once" })] }), "0 committed effects"],
    ["jobs of a key that overlap", inOrder(5), "started 5 ms before job 1 ended"],
    ["counts that differ", facts({ counted: 2 }), "counted 2 completed jobs, and 1 are done"]
  ] as ReadonlyArray<[string, Facts, string]>)("reports %s", (_, given, expected) => {
    expect(check(given)).toEqual([expect.stringContaining(expected)])
  })
})

describe("the registry of faults", () => {
  it("knows the defaults of the settings that limit recovery", () => {
    const values = new Map(Settings.all.map(({ fallback, key }) => [key, fallback]))
    for (const [key, value] of Object.entries(defaults)) expect([key, values.get(key)]).toEqual([key, value])
  })

  it("has at least sixty cases with unique names", () => {
    expect(cases.length).toBeGreaterThanOrEqual(60)
    expect(new Set(cases.map(({ name }) => name)).size).toBe(cases.length)
  })
})
