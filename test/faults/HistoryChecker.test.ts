import { describe, expect, it } from "@effect/vitest"
import { Duration } from "effect"
import * as Settings from "../../src/cli/Settings.js"
import { allowanceOf, defaults, limitOf, pace, type SettingName, type Speed } from "./FaultCase.js"
import { type Absence, type Attempted, check, type Facts, type JobRow, type RunEvent } from "./HistoryChecker.js"
import { cases } from "./Registry.js"

const job = (id: string, more: Partial<Attempted> = {}): Attempted => ({ id, kind: "work", expected: "done", ...more })
const done = (id: string, more: Partial<JobRow> = {}): JobRow => ({
  id,
  status: "done",
  attempt: 1,
  attempts: 5,
  run: `run of ${id}`,
  reason: null,
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
  absences: [],
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

/** Job a starts in process 1 at 0 and in process 2 at 20, where it ends at 30. `first` is how the first run goes on. */
const twice = (first: Partial<RunEvent> | undefined, absences: ReadonlyArray<Absence> = [], secondProcess = 2) => {
  const line = (more: Partial<RunEvent>): RunEvent => ({
    event: "start",
    job: "a",
    kind: "work",
    attempt: 1,
    run: "1.1",
    pid: 1,
    at: 0,
    ...more
  })
  const again = { pid: secondProcess, run: "run of a" }
  return facts({
    events: [
      line({}),
      ...(first === undefined ? [] : [line(first)]),
      line({ ...again, at: 20 }),
      line({ ...again, event: "end", at: 30 })
    ],
    absences
  })
}
const forever = Number.POSITIVE_INFINITY

describe("the history checker", () => {
  it.each([
    ["a job that ran once", facts()],
    ["an enqueue that was never acknowledged and stored nothing", facts({ attempted: [job("a"), job("b")] })],
    ["a transactional job with its effect", facts({ attempted: [job("a", { kind: "once" })], committed: ["a"] })],
    [
      "a job that must die",
      facts({ attempted: [job("a", { expected: "dead" })], rows: [done("a", { status: "dead" })], counted: 0 })
    ],
    ["an erased result of a run that ended", facts({ rows: [done("a", { run: null, erased: true })] })],
    ["jobs of a key in order", inOrder(10)],
    [
      "a run that saw the caller's data in a later attempt",
      facts({
        attempted: [job("a", { failures: 1, value: "sent" })],
        rows: [done("a", { attempt: 2 })],
        events: ran("a", 0, 10).map((event) => ({ ...event, value: "sent" }))
      })
    ],
    ["counts that a killed process lost", facts({ counted: undefined })],
    ["a run after another one that failed", twice({ event: "stop", at: 20 })],
    ["a run after another one whose result was not stored", twice({ event: "end", at: 20 })],
    ["a run after the process of another one was killed", twice(undefined, [{ pid: 1, from: 19, to: forever }])],
    [
      "a run that resumed after its process was stopped, while the next one ran",
      twice({ event: "end", at: 25 }, [{ pid: 1, from: 5, to: 22 }])
    ],
    [
      "a run that started while its process was cut off",
      twice({ event: "end", at: 25 }, [{ pid: 1, from: -5, to: 22 }])
    ]
  ] as ReadonlyArray<[string, Facts]>)("accepts %s", (_, given) => {
    expect(check(given)).toEqual([])
  })

  it.each([
    ["a lost job", facts({ rows: [], counted: 0 }), "acknowledged and is lost"],
    ["a job from nowhere", facts({ attempted: [], acknowledged: new Set() }), "never enqueued"],
    ["a job that never ended", facts({ rows: [done("a", { status: "running" })], counted: 0 }), "never ended"],
    ["a job that died", facts({ rows: [done("a", { status: "dead" })], counted: 0 }), "is dead"],
    ["a result without a run", facts({ events: [] }), "which never ended"],
    ["an erased result without a run", facts({ rows: [done("a", { erased: true })], events: [] }), "which never ended"],
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
    [
      "a job that ran in two processes at once",
      twice({ event: "end", at: 25 }),
      "while process 1 was still running it"
    ],
    ["a job that a process ran twice at once", twice({ event: "end", at: 25 }, [], 1), "in process 1 while process 1"],
    [
      "a job that still ran in a process that failed it later",
      twice({ event: "stop", at: 21 }),
      "while process 1 was still running it"
    ],
    ["a job that still ran in a process that never ended it", twice(undefined), "while process 1 was still running it"],
    [
      "a job that still ran in a process that was killed later",
      twice(undefined, [{ pid: 1, from: 21, to: forever }]),
      "while process 1 was still running it"
    ],
    [
      "a job that still ran while another process was stopped",
      twice({ event: "end", at: 25 }, [{ pid: 3, from: 0, to: forever }]),
      "while process 1 was still running it"
    ],
    [
      "a job that still ran in a process that was stopped before that run",
      twice({ event: "end", at: 25 }, [{ pid: 1, from: -20, to: -10 }]),
      "while process 1 was still running it"
    ],
    ["a job that was stored twice", facts({ rows: [done("a"), done("a")], counted: 2 }), "was stored twice"],
    [
      "a run that saw other data than the caller sent",
      facts({ attempted: [job("a", { value: "sent" })] }),
      "saw undefined and not sent"
    ],
    [
      "a success of an attempt that fails",
      facts({ attempted: [job("a", { failures: 1 })] }),
      "is done in attempt 1, and its first 1 attempts fail"
    ],
    ["counts that differ", facts({ counted: 2 }), "counted 2 completed jobs, and 1 are done"]
  ] as ReadonlyArray<[string, Facts, string]>)("reports %s", (_, given, expected) => {
    expect(check(given)).toEqual([expect.stringContaining(expected)])
  })
})

describe("the recovery limit of a case", () => {
  const millisOf = (speed: Partial<Speed>, recoveryLimit: ReadonlyArray<SettingName> = []) =>
    Duration.toMillis(
      limitOf({ recoveryLimit }, { allowance: allowanceOf({ batch: 100, boot: 0, jobs: 0, remaining: 0, ...speed }) })
    )

  it("is a second if the case waits for nothing and the machine is fast", () => {
    expect(millisOf({})).toBe(1_000)
  })

  it("grows with the speed of the machine, the jobs that are left and the settings of the case", () => {
    expect(millisOf({ batch: 600 })).toBe(3_000)
    expect(millisOf({ remaining: 2_000 })).toBe(4_000)
    expect(millisOf({ boot: 1_000 })).toBe(2_500)
    expect(millisOf({ jobs: 200 })).toBe(2_000)
    expect(millisOf({}, ["QUEUE_STALE_AFTER"])).toBe(1_000 + 3_000 * pace)
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
