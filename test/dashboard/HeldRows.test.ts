import { beforeAll, describe, expect, it } from "vitest"

interface Row {
  readonly job: { readonly id: string; readonly state: string }
  readonly gone: boolean
  readonly passed: boolean
}

/** The function under test. The pages are compiled with other settings, so its own type cannot be imported. */
let merged: (rows: ReadonlyArray<Row>, fresh: ReadonlyArray<Row["job"]>, hasMore: boolean) => ReadonlyArray<Row>

beforeAll(async () => {
  merged = (await import(new URL("../../src/dashboard/app/HeldRows.ts", import.meta.url).href)).merged
})

const jobs = (ids: string, state = "running") => [...ids].map((id) => ({ id, state }))
const rows = (ids: string) => jobs(ids).map((job) => ({ job, gone: false, passed: false }))
const shown = (held: ReadonlyArray<Row>) =>
  held.map(({ gone, job, passed }) => `${job.id} ${job.state}${gone ? " gone" : ""}${passed ? " passed" : ""}`)

describe("the held rows of a job list", () => {
  it("marks rows that new jobs pushed to the next page, until they are on this page again", () => {
    const pushed = merged(rows("cba"), jobs("edc", "done"), true)
    expect(shown(pushed)).toEqual(["c done", "b running passed", "a running passed"])
    expect(shown(merged(pushed, jobs("cba", "done"), true))).toEqual(["c done", "b done", "a done"])
    expect(shown(merged(rows("ba"), jobs("dc"), true))).toEqual(["b running passed", "a running passed"])
  })

  it("marks rows that are on no page as gone", () => {
    expect(shown(merged(rows("cba"), jobs("edca"), true))).toEqual(["c running", "b running gone", "a running"])
    expect(shown(merged(rows("ba"), jobs("b"), false))).toEqual(["b running", "a running gone"])
    expect(shown(merged(merged(rows("ba"), jobs("b"), false), jobs("b"), true))[1]).toBe("a running gone")
  })
})
