import { useEffect, useRef, useState } from "preact/hooks"
import type { Job } from "./Views"

// A live list must not move under the pointer. Visible rows keep their places and are updated there; new rows are held back
// until the user shows them, and rows that no longer match stay, marked, until then.

export interface Row {
  readonly job: Job
  /** Whether the job no longer matches the filter, or was deleted. */
  readonly gone: boolean
  /** Whether new jobs pushed it to the next page, from where it is not updated. */
  readonly passed: boolean
}

interface Held {
  readonly of: string
  readonly rows: ReadonlyArray<Row>
}

export interface HeldRows {
  readonly rows: ReadonlyArray<Row>
  /** Number of new jobs that are held back. */
  readonly unseen: number
  /** Shows the current list. */
  readonly adopt: () => void
}

export const asRows = (jobs: ReadonlyArray<Job>): ReadonlyArray<Row> =>
  jobs.map((job) => ({ job, gone: false, passed: false }))

/** Updates rows in place. Jobs that follow the last row are appended: they move nothing. */
export const merged = (rows: ReadonlyArray<Row>, fresh: ReadonlyArray<Job>, hasMore: boolean): ReadonlyArray<Row> => {
  const byId = new Map(fresh.map((job) => [job.id, job]))
  const shown = new Set(rows.map(({ job }) => job.id))
  const lastShown = rows.reduce(
    (last, { job }) =>
      Math.max(
        last,
        fresh.findIndex(({ id }) => id === job.id)
      ),
    -1
  )
  const lastKept = rows.findLastIndex(({ job }) => byId.has(job.id))
  const kept = rows.map((row, place): Row => {
    const job = byId.get(row.job.id)
    if (job !== undefined) return { job, gone: false, passed: false }
    // New jobs push the last rows to the next page, where they are still in the list.
    const gone = row.gone || place < lastKept || !hasMore
    return { job: row.job, gone, passed: !gone }
  })
  const isNext = ({ id }: Job, place: number) => lastShown >= 0 && place > lastShown && !shown.has(id)
  return [...kept, ...asRows(fresh.filter(isNext))]
}

/** Holds the rows of one list, named by `of`. `hasMore`: whether there are more jobs after these. */
export const useHeldRows = (of: string, fresh: ReadonlyArray<Job> | undefined, hasMore: boolean): HeldRows => {
  const held = useRef<Held>({ of: "", rows: [] })
  const [asked, setAsked] = useState(0)
  const adopting = useRef(0)
  if (fresh !== undefined) {
    const isOther = held.current.of !== of
    const isEmpty = held.current.rows.every(({ gone }) => gone)
    if (isOther || isEmpty || adopting.current !== asked) held.current = { of, rows: asRows(fresh) }
    else held.current = { of, rows: merged(held.current.rows, fresh, hasMore) }
  }
  useEffect(() => {
    adopting.current = asked
  }, [fresh])
  const shown = new Set(held.current.rows.map(({ job }) => job.id))
  return {
    rows: held.current.rows,
    unseen: (fresh ?? []).filter(({ id }) => !shown.has(id)).length,
    adopt: () => {
      if (fresh !== undefined) held.current = { of, rows: asRows(fresh) }
      setAsked((n) => n + 1)
    }
  }
}
