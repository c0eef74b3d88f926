import { expect } from "@effect/vitest"
import { Effect } from "effect"
import type { Law } from "./Inbox.js"

const nothing = { acked: 0, expired: 0, total: 0, leftovers: 0 }

export const sweepLaws = (law: Law): void => {
  law("deletes files past the retention after acknowledgement, and expired ones", (inbox) =>
    Effect.gen(function* () {
      const { advance, clean, names, put, storage, workspace } = inbox
      yield* clean
      yield* put("1", { filename: "expired" })
      const old = yield* put("1", { filename: "old" })
      yield* advance("23 hours")
      yield* storage.ack(workspace, old)
      yield* put("1", { filename: "waits" })
      yield* advance("1 hour")
      const young = yield* put("1", { filename: "young" })
      yield* storage.ack(workspace, young)
      expect(yield* storage.sweep("1 hour")).toEqual({ acked: 1, expired: 1, total: 2, leftovers: 0 })
      expect(yield* storage.sweep("1 hour")).toEqual(nothing)
      expect(yield* names).toEqual(["waits"])
      expect((yield* storage.get(workspace, young)).upload.filename).toBe("young")
      expect(yield* Effect.flip(storage.get(workspace, old))).toMatchObject({ _tag: "UploadNotFound" })
    })
  )

  law("recently acknowledged and waiting files are kept", ({ advance, clean, put, storage, workspace }) =>
    Effect.gen(function* () {
      yield* clean
      const acked = yield* put()
      yield* put()
      yield* storage.ack(workspace, acked)
      yield* advance("3599999 millis")
      expect(yield* storage.sweep("1 hour")).toEqual(nothing)
      yield* advance("1 millis")
      expect(yield* storage.sweep("1 hour")).toEqual({ acked: 1, expired: 0, total: 1, leftovers: 0 })
    })
  )

  law("with a retention of zero or less, acknowledged files are deleted at once", (inbox) =>
    Effect.gen(function* () {
      const { clean, put, storage, workspace } = inbox
      yield* clean
      for (const retention of [0, -5_000, "0 seconds"] as const) {
        const id = yield* put()
        yield* put("waits")
        yield* storage.ack(workspace, id)
        expect(yield* storage.sweep(retention)).toEqual({ acked: 1, expired: 0, total: 1, leftovers: 0 })
      }
    })
  )

  law("acknowledged files follow only their retention, whatever their expiry", (inbox) =>
    Effect.gen(function* () {
      const { advance, clean, put, storage, workspace } = inbox
      yield* clean
      const id = yield* put()
      yield* advance("23 hours")
      yield* storage.ack(workspace, id)
      yield* advance("2 hours")
      expect(yield* storage.sweep("3 hours")).toEqual(nothing)
      expect(yield* storage.sweep(Number.POSITIVE_INFINITY)).toEqual(nothing)
      expect(yield* storage.sweep("2 hours")).toEqual({ acked: 1, expired: 0, total: 1, leftovers: 0 })
    })
  )

  law("counts each file once, during concurrent acknowledgements and sweeps", (inbox) =>
    Effect.gen(function* () {
      const { advance, clean, put, storage, workspace } = inbox
      yield* clean
      const expiring = yield* Effect.all(Array.from({ length: 40 }, () => put()))
      yield* advance("24 hours")
      const ids = yield* Effect.all(Array.from({ length: 40 }, () => put()))
      const acks = Effect.forEach([...expiring, ...ids], (id) => Effect.either(storage.ack(workspace, id)), {
        concurrency: 4
      })
      const sweeps = Effect.all(
        Array.from({ length: 20 }, () => storage.sweep(0)),
        { concurrency: 3 }
      )
      const [, swept] = yield* Effect.all([acks, sweeps], { concurrency: "unbounded" })
      const all = [...swept, yield* storage.sweep(0)]
      const sum = (count: (one: (typeof all)[number]) => number) => all.reduce((total, one) => total + count(one), 0)
      expect([sum(({ expired }) => expired), sum(({ acked }) => acked)]).toEqual([40, 40])
      expect(sum(({ total }) => total)).toBe(80)
    })
  )

  law("files are counted by state", ({ advance, clean, put, storage, workspace }) =>
    Effect.gen(function* () {
      yield* clean
      yield* put()
      yield* advance("24 hours")
      const [fetched, acked] = [yield* put(), yield* put()]
      yield* put()
      yield* put()
      yield* storage.markFetched(workspace, fetched)
      yield* storage.ack(workspace, acked)
      expect(yield* storage.counts).toEqual({ waiting: 2, fetched: 1, acked: 1, expired: 1 })
    })
  )

  law(
    "a workspace is stuck when its oldest file has waited too long",
    ({ advance, clean, now, put, storage, workspace }) =>
      Effect.gen(function* () {
        yield* clean
        expect(yield* storage.stuck("1 hour")).toEqual([])
        yield* put("12345")
        const oldest = yield* now
        yield* advance("30 minutes")
        yield* put("678")
        const acked = yield* put()
        yield* storage.ack(workspace, acked)
        yield* advance("30 minutes")
        yield* put("not yet")
        expect(yield* storage.stuck("1 hour")).toEqual([{ workspace, files: 1, bytes: 5, oldest }])
        expect(yield* storage.stuck("30 minutes")).toEqual([{ workspace, files: 2, bytes: 8, oldest }])
      })
  )
}
