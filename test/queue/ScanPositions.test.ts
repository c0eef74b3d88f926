import { describe, expect, it } from "@effect/vitest"
import { ScanPositions } from "../../src/queue/claim/ScanPositions.js"

const start = (priority: number, runAt: number, id = "b") => ({ priority, runAt, id })
const lasts = (...starts: ReadonlyArray<ReturnType<typeof start>>) =>
  new Map(starts.map((last) => [last.priority, last]))

describe("the memory of scan positions", () => {
  it("starts where the last claim ended", () => {
    const positions = new ScanPositions()
    positions.rescan([0], 10_000)
    positions.took(lasts(start(0, 9_000)), 0, true, 10_000)
    expect(positions.from).toEqual([start(0, 9_000)])
  })

  it("moves back for a job that is stored before it, with its priority", () => {
    const positions = new ScanPositions()
    positions.rescan([0], 10_000)
    positions.took(lasts(start(0, 9_000)), 0, true, 10_000)
    positions.saw(start(0, 9_500))
    positions.saw(start(0, 8_000, "a"))
    positions.saw(start(-3, 9_900))
    expect(positions.from).toEqual([start(-3, 9_900), start(0, 8_000, "a")])
  })

  it("leaves room for concurrent commits when a priority was empty", () => {
    const positions = new ScanPositions()
    positions.rescan([0, 5], 10_000)
    positions.took(lasts(start(0, 9_000)), 0, false, 10_000)
    expect(positions.from.find(({ priority }) => priority === 5)).toMatchObject({ runAt: 9_500 })
  })

  it("does not skip a priority that a full claim did not reach", () => {
    const positions = new ScanPositions()
    positions.rescan([0, 5], 10_000)
    positions.took(lasts(start(0, 9_000)), 0, true, 10_000)
    expect(positions.from.find(({ priority }) => priority === 5)).toMatchObject({ runAt: 0 })
  })

  it("remembers priorities that ran empty, so that another process's next job is found at once", () => {
    const positions = new ScanPositions()
    positions.rescan([5], 10_000)
    positions.rescan([], 20_000)
    expect(positions.priorities).toEqual([0, 5])
  })

  it("scans from the start once a second, after short claims and after full ones", () => {
    const positions = new ScanPositions()
    expect(positions.isRescanDue(0)).toBe(true)
    positions.rescan([0], 10_000)
    expect([positions.mayRescan(10_999), positions.mayRescan(11_000)]).toEqual([false, true])
    expect([positions.isRescanDue(10_999), positions.isRescanDue(11_000)]).toEqual([false, true])
    expect([positions.isProbeDue(10_999), positions.isProbeDue(11_000)]).toEqual([false, true])
  })

  it("gives slow scans a twentieth of the time under full claims, and scans at least every ten seconds", () => {
    const positions = new ScanPositions()
    positions.rescan([0], 10_000)
    positions.lookTook(200)
    expect([positions.isRescanDue(13_999), positions.isRescanDue(14_000)]).toEqual([false, true])
    positions.lookTook(5_000)
    expect([positions.isRescanDue(19_999), positions.isRescanDue(20_000)]).toEqual([false, true])
    expect(positions.mayRescan(11_000)).toBe(true)
  })
})
