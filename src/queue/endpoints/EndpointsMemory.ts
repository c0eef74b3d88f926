import { Effect, Layer } from "effect"
import { JobTable } from "../JobTableMemory.js"
import { type EndpointRow, standingOf } from "./Endpoint.js"
import { type EndpointStore, Endpoints, make } from "./Endpoints.js"

const store = Effect.map(JobTable, (jobs): EndpointStore => {
  const rows = new Map<string, EndpointRow>()

  /** Sets or deletes a row. An enclosing transaction that fails restores it. */
  const set = (id: string, row: EndpointRow | undefined) => {
    const before = rows.get(id)
    if (row === undefined) rows.delete(id)
    else rows.set(id, row)
    jobs.onRollback(() => (before === undefined ? rows.delete(id) : rows.set(id, before)))
    return before
  }
  const newest = () => [...rows.values()].sort((left, right) => (left.id < right.id ? 1 : -1))

  return {
    insert: (row) => jobs.atomically(() => void set(row.id, row)),
    find: (id) => Effect.sync(() => rows.get(id)),
    edit: (id, change) =>
      jobs.atomically(() => {
        const before = rows.get(id)
        if (before === undefined) return undefined
        const after = change(before)
        set(id, after)
        return { before, after }
      }),
    remove: (id) => jobs.atomically(() => set(id, undefined)),
    page: ({ cursor, customer, limit, standing }) =>
      Effect.sync(() =>
        newest()
          .filter((row) => cursor === undefined || row.id < cursor)
          .filter((row) => customer === undefined || row.customer === customer)
          .filter((row) => standing === undefined || standingOf(row) === standing)
          .slice(0, limit)
      ),
    targets: (customer, type) =>
      Effect.sync(() =>
        newest()
          .filter((row) => row.customer === customer && (row.types === undefined || row.types.includes(type)))
          .map(({ id }) => id)
          .reverse()
      )
  }
})

/** Endpoints in memory. */
export const layer: Layer.Layer<Endpoints, never, JobTable> = Layer.effect(Endpoints, Effect.flatMap(store, make))
