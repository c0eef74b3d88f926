import { describe, expect, it } from "@effect/vitest"
import { ClaimCursor } from "../../src/queue/claim/ClaimCursor.js"

const start = (priority: number, runAt: number, id = "b") => ({ priority, runAt, id })
const lasts = (...starts: ReadonlyArray<ReturnType<typeof start>>) =>
  new Map(starts.map((last) => [last.priority, last]))

describe("a claim cursor", () => {
  it("starts where the last claim ended", () => {
    const cursor = new ClaimCursor()
    cursor.rescan([0], 10_000)
    cursor.took(lasts(start(0, 9_000)), 0, true, 10_000)
    expect(cursor.from).toEqual([start(0, 9_000)])
  })

  it("moves back for a job that is stored before it, with its priority", () => {
    const cursor = new ClaimCursor()
    cursor.rescan([0], 10_000)
    cursor.took(lasts(start(0, 9_000)), 0, true, 10_000)
    cursor.saw(start(0, 9_500))
    cursor.saw(start(0, 8_000, "a"))
    cursor.saw(start(-3, 9_900))
    expect(cursor.from).toEqual([start(-3, 9_900), start(0, 8_000, "a")])
  })

  it("leaves room for concurrent commits when a priority was empty", () => {
    const cursor = new ClaimCursor()
    cursor.rescan([0, 5], 10_000)
    cursor.took(lasts(start(0, 9_000)), 0, false, 10_000)
    expect(cursor.from.find(({ priority }) => priority === 5)).toMatchObject({ runAt: 9_500 })
  })

  it("does not skip a priority that a full claim did not reach", () => {
    const cursor = new ClaimCursor()
    cursor.rescan([0, 5], 10_000)
    cursor.took(lasts(start(0, 9_000)), 0, true, 10_000)
    expect(cursor.from.find(({ priority }) => priority === 5)).toMatchObject({ runAt: 0 })
  })

  it("remembers priorities that ran empty, so that another process's next job is found at once", () => {
    const cursor = new ClaimCursor()
    cursor.rescan([5], 10_000)
    cursor.rescan([], 20_000)
    expect(cursor.priorities).toEqual([0, 5])
  })

  it("scans from the start once a second, after short claims and after full ones", () => {
    const cursor = new ClaimCursor()
    expect(cursor.isRescanDue(0)).toBe(true)
    cursor.rescan([0], 10_000)
    expect([cursor.mayRescan(10_999), cursor.mayRescan(11_000)]).toEqual([false, true])
    expect([cursor.isRescanDue(10_999), cursor.isRescanDue(11_000)]).toEqual([false, true])
    expect([cursor.isProbeDue(10_999), cursor.isProbeDue(11_000)]).toEqual([false, true])
  })

  it("gives slow scans a twentieth of the time under full claims, and scans at least every ten seconds", () => {
    const cursor = new ClaimCursor()
    cursor.rescan([0], 10_000)
    cursor.lookTook(200)
    expect([cursor.isRescanDue(13_999), cursor.isRescanDue(14_000)]).toEqual([false, true])
    cursor.lookTook(5_000)
    expect([cursor.isRescanDue(19_999), cursor.isRescanDue(20_000)]).toEqual([false, true])
    expect(cursor.mayRescan(11_000)).toBe(true)
  })
})
