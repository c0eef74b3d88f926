import { expect } from "@effect/vitest"
import { Effect } from "effect"
import type { JobFilter } from "../../src/queue/search/JobSearch.js"
import { type JobSort, writeCursor } from "../../src/queue/search/JobSort.js"
import { ends, type Law, type Line } from "./Line.js"

/** Payloads of all jobs, one per page. */
const pagesOf = (line: Line, sort: JobSort, filter: JobFilter, afterPage: Effect.Effect<unknown> = Effect.void) =>
  Effect.gen(function* () {
    const all: Array<unknown> = []
    let cursor: string | undefined
    do {
      const { jobs, next } = yield* line.search.list({ queue: line.name, ...filter }, { limit: 1, sort, cursor })
      all.push(...jobs.map(({ payload }) => payload))
      cursor = next
      yield* afterPage
    } while (cursor !== undefined)
    return all.join("")
  })

/** The orders of a list of jobs, and their cursors. */
export const sortLaws = (law: Law): void => {
  law("list sorts by every column, in both directions, and pages continue where the last one ended", (line) =>
    Effect.gen(function* () {
      const now = yield* line.now
      for (const [payload, kind, priority, after] of [
        ["a", "zebra", 1, 300_000],
        ["b", "ant", 0, 100_000],
        ["c", "bee", 2, 200_000]
      ] as const) {
        yield* line.put({ payload, kind: `${line.name}.${kind}`, priority, runAt: now + after })
      }
      const pages = (sort: JobSort, filter: JobFilter = { state: "scheduled" }) => pagesOf(line, sort, filter)
      const both = (by: JobSort["by"], filter?: JobFilter) =>
        Effect.all([pages({ by, descending: false }, filter), pages({ by, descending: true }, filter)])
      expect(yield* both("created")).toEqual(["abc", "cba"])
      expect(yield* both("due")).toEqual(["bca", "acb"])
      expect(yield* both("when")).toEqual(["bca", "acb"])
      expect(yield* both("kind")).toEqual(["bca", "acb"])
      expect(yield* both("priority")).toEqual(["bac", "cab"])
      expect(yield* both("queue")).toEqual(["abc", "cba"])
      expect(yield* both("attempt")).toEqual(["abc", "cba"])
      expect(yield* both("state")).toEqual(["abc", "cba"])
      expect(yield* both("finished")).toEqual(["abc", "cba"])

      const [x, y] = [yield* line.run({ payload: "x" }), yield* line.run({ payload: "y" })]
      yield* line.advance("2 seconds")
      const z = yield* line.run({ payload: "z" })
      yield* line.advance("1 second")
      yield* line.end(z, ends.dead)
      yield* line.advance("1 second")
      yield* line.end(y, ends.dead)
      yield* line.advance("1 second")
      yield* line.end(x, ends.dead)
      expect(yield* both("finished", { state: "dead" })).toEqual(["zyx", "xyz"])
      expect(yield* both("duration", { state: "dead" })).toEqual(["zyx", "xyz"])
      expect(yield* both("finished", { state: ["dead", "done"] })).toEqual(["zyx", "xyz"])
      // Jobs without a value come last.
      expect(yield* both("finished", {})).toEqual(["zyxabc", "xyzcba"])
      expect(yield* both("state", {})).toEqual(["abcxyz", "zyxcba"])
    })
  )

  law("list refuses a cursor of another order", (line) =>
    Effect.gen(function* () {
      yield* line.put({ payload: 1 })
      yield* line.put({ payload: 2 })
      const listed = (sort: JobSort, cursor?: string) =>
        line.search.list({ queue: line.name }, { limit: 1, sort, cursor })
      const { next } = yield* listed({ by: "kind", descending: true })
      for (const sort of [
        { by: "kind", descending: false },
        { by: "queue", descending: true },
        { by: "created", descending: true }
      ] as const) {
        expect(yield* Effect.flip(listed(sort, next))).toMatchObject({ _tag: "BadCursor" })
      }
      expect(yield* Effect.flip(listed({ by: "kind", descending: true }, "?"))).toMatchObject({ _tag: "BadCursor" })
    })
  )

  law("list sorts running jobs by duration as of the first page, so that none is missing or there twice", (line) =>
    Effect.gen(function* () {
      for (const payload of ["a", "b", "c"]) {
        yield* line.run({ payload })
        yield* line.advance("1 second")
      }
      const pages = (descending: boolean) =>
        pagesOf(line, { by: "duration", descending }, {}, line.advance("5 seconds"))
      expect(yield* pages(true)).toBe("abc")
      expect(yield* pages(false)).toBe("cba")
    })
  )

  law("list refuses a cursor whose value is not of the column", (line) =>
    Effect.gen(function* () {
      const id = yield* line.newId
      const at = yield* line.now
      for (const [by, value] of [
        ["duration", "x"],
        ["due", 1e30],
        ["kind", 1],
        ["priority", "1"]
      ] as const) {
        const sort = { by, descending: true }
        const cursor = writeCursor(sort, { value, id, newest: id, at })
        const listed = line.search.list({ queue: line.name }, { limit: 1, sort, cursor })
        expect(yield* Effect.flip(listed)).toMatchObject({ _tag: "BadCursor" })
      }
      const sort = { by: "duration", descending: true } as const
      const cursor = writeCursor(sort, { value: "x", id, newest: id, at })
      const executions = line.workflows.list({}, { limit: 1, sort, before: cursor })
      expect(yield* Effect.flip(executions)).toMatchObject({ _tag: "BadCursor" })
    })
  )
}
