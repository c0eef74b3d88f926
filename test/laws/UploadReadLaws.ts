import { expect } from "@effect/vitest"
import { Effect } from "effect"
import type { UploadFilter } from "../../src/uploads/Storage.js"
import { type Law, newWorkspace } from "./Inbox.js"

const nowhere = { _tag: "UploadNotFound" }

export const uploadReadLaws = (law: Law): void => {
  law("waiting files are listed oldest first, without acknowledged, expired or other workspaces' files", (inbox) =>
    Effect.gen(function* () {
      const { advance, names, put, storage, workspace } = inbox
      yield* put("1", { filename: "expired" })
      yield* advance("23 hours")
      for (const filename of ["first", "second", "third"]) {
        yield* put("1", { filename })
        yield* advance("1 minute")
      }
      const acked = yield* put("1", { filename: "acked" })
      yield* storage.put(newWorkspace(), { filename: "another's", mimetype: "", content: Buffer.from("1") })
      yield* storage.ack(workspace, acked)
      expect(yield* names).toEqual(["expired", "first", "second", "third"])
      yield* advance("57 minutes")
      expect(yield* names).toEqual(["first", "second", "third"])
      expect((yield* storage.list(workspace, 2)).map(({ filename }) => filename)).toEqual(["first", "second"])
    })
  )

  law("an acknowledged file can be read until it is swept, even past its expiry", (inbox) =>
    Effect.gen(function* () {
      const { advance, put, read, storage, workspace } = inbox
      const id = yield* put("still here")
      yield* storage.ack(workspace, id)
      yield* advance("25 hours")
      expect((yield* read(id)).toString()).toBe("still here")
      yield* storage.sweep("26 hours")
      expect((yield* read(id)).toString()).toBe("still here")
      yield* storage.sweep("25 hours")
      expect(yield* Effect.flip(read(id))).toMatchObject(nowhere)
    })
  )

  law("a file that expired unacknowledged does not exist, swept or not", ({ advance, put, read, storage, workspace }) =>
    Effect.gen(function* () {
      const id = yield* put("too late")
      yield* advance("24 hours")
      expect(yield* Effect.flip(read(id))).toMatchObject(nowhere)
      expect(yield* Effect.flip(storage.markFetched(workspace, id))).toMatchObject(nowhere)
      expect(yield* Effect.flip(storage.ack(workspace, id))).toMatchObject(nowhere)
    })
  )

  law("another workspace's file does not exist, exactly like an unknown id", ({ put, storage }) =>
    Effect.gen(function* () {
      const id = yield* put("mine")
      const other = newWorkspace()
      yield* storage.put(other, { filename: "theirs", mimetype: "", content: Buffer.from("1") })
      const never = yield* Effect.map(storage.begin({ filename: "never", mimetype: "" }), (draft) => draft.id)
      for (const act of [storage.get, storage.markFetched, storage.ack]) {
        const [mine, none] = [yield* Effect.flip(act(other, id)), yield* Effect.flip(act(other, never))]
        expect({ ...mine, id: "" }).toEqual({ ...none, id: "" })
        expect(mine).toMatchObject(nowhere)
        expect(mine.message).toBe(none.message)
      }
    })
  )

  law("every fetch is recorded", ({ advance, now, put, storage, workspace }) =>
    Effect.gen(function* () {
      const id = yield* put()
      yield* storage.markFetched(workspace, id)
      yield* advance("1 minute")
      yield* storage.markFetched(workspace, id)
      expect((yield* storage.get(workspace, id)).upload.fetchedAt).toBe(yield* now)
    })
  )

  law("acknowledging again is harmless and keeps the first time", ({ advance, now, put, storage, workspace }) =>
    Effect.gen(function* () {
      const id = yield* put()
      yield* storage.ack(workspace, id)
      const first = yield* now
      yield* advance("30 hours")
      yield* storage.ack(workspace, id)
      yield* storage.markFetched(workspace, id)
      expect((yield* storage.get(workspace, id)).upload).toMatchObject({ ackedAt: first, fetchedAt: yield* now })
    })
  )

  law("concurrent acknowledgements all succeed", ({ put, storage, workspace }) =>
    Effect.gen(function* () {
      const id = yield* put()
      yield* Effect.all(
        Array.from({ length: 20 }, () => storage.ack(workspace, id)),
        { concurrency: "unbounded" }
      )
    })
  )

  law("files are listed by state and workspace, newest first, page by page", (inbox) =>
    Effect.gen(function* () {
      const { advance, put, storage, workspace } = inbox
      const looked = (filter: UploadFilter, limit = 10, cursor?: string) =>
        Effect.map(storage.browse({ workspace, ...filter }, { limit, cursor }), ({ next, uploads }) => ({
          names: uploads.map(({ filename }) => filename),
          next
        }))
      yield* put("1", { filename: "expired" })
      yield* advance("23 hours")
      const fetched = yield* put("1", { filename: "fetched" })
      const acked = yield* put("1", { filename: "acked" })
      yield* put("1", { filename: "waiting" })
      yield* storage.put(newWorkspace(), { filename: "another's", mimetype: "", content: Buffer.from("1") })
      yield* storage.markFetched(workspace, fetched)
      yield* storage.markFetched(workspace, acked)
      yield* storage.ack(workspace, acked)
      yield* advance("1 hour")
      for (const state of ["waiting", "fetched", "acked", "expired"] as const) {
        expect((yield* looked({ state })).names).toEqual([state])
      }
      const first = yield* looked({}, 3)
      expect(first.names).toEqual(["waiting", "acked", "fetched"])
      expect(yield* looked({}, 3, first.next)).toEqual({ names: ["expired"], next: undefined })
      expect((yield* looked({ workspace: undefined }, 1)).names).toEqual(["another's"])
      expect(yield* Effect.flip(storage.browse({}, { limit: 1, cursor: "no id" }))).toMatchObject({ _tag: "BadCursor" })
    })
  )
}
