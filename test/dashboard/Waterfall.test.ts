import { describe, expect, it } from "vitest"
import { positionOn, ticksOf } from "../../src/dashboard/app/parts/Scale.js"
import type { Execution } from "../../src/dashboard/app/Views.js"
import { axisOf, barsOf } from "../../src/dashboard/app/Waterfall.js"

const zero = Date.parse("2026-01-01T00:00:00.000Z")
const at = (seconds: number) => new Date(zero + seconds * 1000).toISOString()

const step = (name: string, from: number, to: number, more: object = {}) => ({
  name,
  kind: "run" as const,
  attempt: 1,
  sequence: from,
  outcome: "done" as const,
  exit: {},
  startedAt: at(from),
  endedAt: at(to),
  retryAt: null,
  reopenedAt: null,
  ...more
})

const wait = (kind: "signal" | "sleep" | "children" | "limit", name: string, from: number, more: object = {}) => ({
  kind,
  name,
  createdAt: at(from),
  dueAt: null,
  completedAt: null,
  value: null,
  remaining: null,
  waiting: true,
  ...more
})

const child = (position: number, more: object = {}) => ({
  step: "ship",
  position,
  id: `00000000-0000-7000-8000-00000000000${position}`,
  owned: true,
  kind: "shipment",
  execution: `order/7/ship/${position}`,
  state: "done" as const,
  reason: null,
  lastError: null,
  createdAt: at(60),
  finishedAt: at(70),
  ...more
})

const execution = (more: object = {}): Execution =>
  ({
    execution: "order/7",
    id: "00000000-0000-7000-8000-000000000000",
    workflow: "order",
    version: 1,
    queue: "default",
    state: "waiting",
    reason: null,
    payload: {},
    result: null,
    lastError: null,
    createdAt: at(0),
    updatedAt: at(0),
    finishedAt: null,
    dueAt: null,
    continued: 0,
    pinned: null,
    tags: {},
    waits: [],
    stepsDone: 0,
    failedStep: null,
    childCounts: { done: 0, failed: 0, cancelled: 0, open: 0, deleted: 0, more: false },
    streams: [],
    steps: [],
    deferreds: [],
    unclaimed: [],
    heartbeats: [],
    values: {},
    children: [],
    parents: [],
    ...more
  }) as Execution

/** The bars as `name from-to`, in seconds since the start. */
const told = (of: Execution, now = 100) =>
  barsOf(of, zero + now * 1000).map(
    ({ from, name, open, to }) => `${name} ${(from - zero) / 1000}-${open ? "" : (to - zero) / 1000}`
  )

describe("the waterfall of an execution", () => {
  it("draws a wait from its suspension, not from the run that ended it", () => {
    const of = execution({
      state: "done",
      finishedAt: at(50),
      steps: [
        step("charge", 1, 2),
        step("cool off", 32, 32, { kind: "sleep" }),
        step("approval", 50, 50, { kind: "signal" })
      ],
      deferreds: [
        wait("sleep", "cool off", 2, { dueAt: at(32), waiting: false }),
        wait("signal", "approval", 33, { completedAt: at(50), waiting: false })
      ]
    })
    expect(told(of)).toEqual(["charge 1-2", "cool off 2-32", "approval 33-50"])
  })

  it("draws a signal that arrived early from the moment it was read", () => {
    const deferreds = [wait("signal", "approval", -20, { completedAt: at(-20), waiting: false })]
    const steps = [step("approval", 5, 6, { kind: "signal" })]
    expect(told(execution({ state: "running", steps, deferreds }))).toEqual(["approval 5-6", "running 6-"])
    expect(told(execution({ state: "running", deferreds }))).toEqual(["approval -20--20", "running 0-"])
  })

  it("shows open waits up to now, children below their step, and the run that has recorded nothing yet", () => {
    const of = execution({
      state: "running",
      steps: [step("charge", 1, 2)],
      deferreds: [wait("children", "ship", 60, { remaining: 1, waiting: false })],
      children: [child(0), child(1, { state: "running", finishedAt: null })]
    })
    expect(told(of)).toEqual(["charge 1-2", "ship 60-", "order/7/ship/0 60-70", "order/7/ship/1 60-", "running 2-"])
  })

  it("shows each child in its state, with the reason if it has one", () => {
    const children = [
      child(0),
      child(1, { state: "failed", reason: "not_undone" }),
      child(2, { state: "cancelled", reason: "cancelled" }),
      child(3, { state: null })
    ]
    const bars = barsOf(execution({ children }), zero + 100_000).filter((bar) => bar.child !== undefined)
    expect(bars.map(({ detail }) => detail)).toEqual(["done", "failed (not undone)", "cancelled", "deleted"])
  })

  it("shows the state of an execution that waits for nothing it has named", () => {
    const bars = barsOf(execution({ state: "sleeping", dueAt: at(130) }), zero + 100_000)
    expect(bars).toMatchObject([{ name: "sleeping", from: zero, to: zero + 100_000, open: true, dueAt: at(130) }])
    const named = execution({ state: "sleeping", deferreds: [wait("sleep", "cool off", 2)] })
    expect(told(named)).toEqual(["cool off 2-"])
  })

  it("ends with the execution: a wait that was cut off ends before the steps are undone", () => {
    const of = execution({
      state: "cancelled",
      finishedAt: at(40),
      steps: [step("charge", 1, 2), step("undo:charge", 39, 40, { kind: "undo" })],
      deferreds: [wait("signal", "approval", 3)]
    })
    expect(told(of)).toEqual(["charge 1-2", "approval 3-39", "undo:charge 39-40"])
    expect(axisOf(of, barsOf(of, zero + 100_000), zero + 100_000)).toEqual({ start: zero, ends: zero + 40_000 })
  })
})

describe("the time axis", () => {
  const axis = { start: zero, ends: zero + 200_000 }

  it("places bars to scale and cuts them off at its ends", () => {
    expect(positionOn({ from: zero + 50_000, to: zero + 150_000 }, axis)).toEqual({ from: 0.25, length: 0.5 })
    expect(positionOn({ from: zero - 90_000, to: zero + 20_000 }, axis)).toEqual({ from: 0, length: 0.1 })
    expect(positionOn({ from: zero - 90_000, to: zero - 80_000 }, axis)).toEqual({ from: 0, length: 0 })
  })

  it("has one to five ticks at round distances, for a millisecond as for ten years", () => {
    expect(ticksOf(axis)).toEqual([0, 60_000, 120_000, 180_000])
    expect(ticksOf({ start: 0, ends: 3 * 86_400_000 })).toEqual([0, 1, 2, 3].map((days) => days * 86_400_000))
    for (let length = 1; length < 10 * 365 * 86_400_000; length = Math.ceil(length * 1.3)) {
      const ticks = ticksOf({ start: zero, ends: zero + length })
      expect(ticks.length).toBeGreaterThanOrEqual(1)
      expect(ticks.length).toBeLessThanOrEqual(5)
      expect(ticks.at(-1)).toBeLessThanOrEqual(length)
    }
  })
})

describe("a step that sends heartbeats", () => {
  const beat = { step: "import", attempt: 2, startedAt: at(40), at: at(90), timeoutAt: at(400), details: { page: 7 } }

  it("is a bar that is open while the execution runs, in place of the present", () => {
    const running = execution({ state: "running", heartbeats: [beat] })
    expect(told(running)).toEqual(["import 40-"])
    expect(barsOf(running, zero + 100_000)[0]).toMatchObject({ detail: "attempt 2", dueAt: at(400), heartbeat: beat })
  })

  it("ends at its last heartbeat if its run was cut off", () => {
    expect(told(execution({ state: "pending", heartbeats: [beat] }))).toEqual(["import 40-90", "pending 0-"])
  })
})

it("a wait for a limit names the limit", () => {
  const waiting = execution({ deferreds: [wait("limit", "send", 5, { value: "mailer", dueAt: at(200) })] })
  expect(barsOf(waiting, zero + 10_000)[0]).toMatchObject({ kind: "limit", detail: "waits for mailer", dueAt: at(200) })
})

it("a race says that it waits for the first of its children", () => {
  const waiting = execution({ deferreds: [wait("children", "quotes", 5, { value: { first: true }, remaining: 1 })] })
  expect(barsOf(waiting, zero + 10_000).map(({ detail, name }) => [name, detail])).toContainEqual([
    "quotes",
    "race: the first to end"
  ])
})
