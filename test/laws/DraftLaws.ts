import { createHash } from "node:crypto"
import { expect } from "@effect/vitest"
import { Effect } from "effect"
import { chunkBytes } from "../../src/uploads/Upload.js"
import type { Law } from "./Inbox.js"
import { pattern } from "./PutLaws.js"

const mib = 1024 * 1024

export const draftLaws = (law: Law): void => {
  law("drafts are invisible until they are published, and then appear together", (inbox) =>
    Effect.gen(function* () {
      const { draft, names, storage, workspace } = inbox
      const first = yield* draft([Buffer.from("one")], "first")
      const second = yield* draft([Buffer.from("two")], "second")
      expect(yield* names).toEqual([])
      expect(yield* Effect.flip(storage.get(workspace, first.id))).toMatchObject({ _tag: "UploadNotFound" })
      const uploads = yield* storage.publish(workspace, [second, first])
      expect(uploads.map(({ filename }) => filename)).toEqual(["second", "first"])
      expect(new Set(uploads.map(({ createdAt }) => createdAt))).toEqual(new Set([yield* inbox.now]))
      expect((yield* names).toSorted()).toEqual(["first", "second"])
      expect((yield* storage.get(workspace, first.id)).upload).toEqual(uploads[1])
    })
  )

  law("content is read back as it was written, whatever its pieces", ({ draft, read, storage, workspace }) =>
    Effect.gen(function* () {
      const content = pattern(2 * chunkBytes + 1)
      const cut = (size: number) =>
        Array.from({ length: Math.ceil(content.length / size) }, (_, n) => content.subarray(n * size, (n + 1) * size))
      for (const pieces of [
        [content],
        cut(chunkBytes),
        cut(chunkBytes - 1),
        cut(1021),
        [...cut(65_536), Buffer.alloc(0)]
      ]) {
        const whole = yield* draft(pieces)
        expect(whole).toMatchObject({
          size: content.length,
          sha256: createHash("sha256").update(content).digest("hex")
        })
        yield* storage.publish(workspace, [whole])
        expect((yield* read(whole.id)).equals(content)).toBe(true)
      }
    })
  )

  law("a draft over the cap is refused at the first excess byte", ({ storage }) =>
    Effect.gen(function* () {
      const draft = yield* storage.begin({ filename: "big", mimetype: "" })
      yield* draft.append(Buffer.alloc(mib))
      const refused = yield* Effect.flip(draft.append(Buffer.alloc(1)))
      expect(refused).toMatchObject({ _tag: "UploadTooLarge", filename: "big", size: mib + 1, max: mib })
      yield* storage.discard([draft.id])
    })
  )

  law("an empty draft and an invalid name are refused with their index", ({ storage }) =>
    Effect.gen(function* () {
      const draft = yield* storage.begin({ filename: "empty", mimetype: "" }, 3)
      expect(yield* Effect.flip(draft.end)).toMatchObject({ _tag: "InvalidUpload", index: 3, field: "content" })
      const unnamed = yield* Effect.flip(storage.begin({ filename: "", mimetype: "" }, 2))
      expect(unnamed).toMatchObject({ _tag: "InvalidUpload", index: 2, field: "filename" })
    })
  )

  law(
    "a discarded draft cannot be published, and neither can the drafts of the same request",
    ({ draft, names, storage, workspace }) =>
      Effect.gen(function* () {
        const kept = yield* draft([Buffer.from("kept")], "kept")
        const gone = yield* draft([Buffer.from("gone")], "gone")
        yield* storage.discard([gone.id])
        expect(yield* Effect.flip(storage.publish(workspace, [kept, gone]))).toMatchObject({ _tag: "DraftLost" })
        expect(yield* names).toEqual([])
        yield* storage.publish(workspace, [kept])
        expect(yield* names).toEqual(["kept"])
      })
  )

  law("a published file stays, even if it is discarded or published again", ({ draft, read, storage, workspace }) =>
    Effect.gen(function* () {
      const whole = yield* draft([Buffer.from("here")])
      yield* storage.publish(workspace, [whole])
      yield* storage.discard([whole.id])
      expect(yield* Effect.flip(storage.publish(workspace, [whole]))).toMatchObject({ _tag: "DraftLost" })
      expect((yield* read(whole.id)).toString()).toBe("here")
      expect(yield* storage.publish(workspace, [])).toEqual([])
    })
  )

  law("drafts that exceed the quota are not published", ({ draft, names, storage, workspace }) =>
    Effect.gen(function* () {
      const wholes = yield* Effect.all(Array.from({ length: 5 }, () => draft([Buffer.alloc(mib)])))
      expect(yield* Effect.flip(storage.publish(workspace, wholes))).toMatchObject({
        _tag: "QuotaExceeded",
        kept: 0,
        size: 5 * mib
      })
      expect(yield* names).toEqual([])
      yield* storage.publish(workspace, wholes.slice(0, 4))
    })
  )

  law("an unpublished draft is swept, and fails when its writer returns", (inbox) =>
    Effect.gen(function* () {
      const { advance, clean, draft, storage, workspace } = inbox
      yield* clean
      const late = yield* storage.begin({ filename: "late", mimetype: "" })
      yield* late.append(Buffer.alloc(chunkBytes))
      const whole = yield* draft([Buffer.from("whole")])
      yield* advance("29 minutes")
      expect(yield* storage.sweep("1 hour")).toEqual({ acked: 0, expired: 0, total: 0, leftovers: 0 })
      yield* advance("1 minute")
      expect(yield* storage.sweep("1 hour")).toEqual({ acked: 0, expired: 0, total: 0, leftovers: 2 })
      expect(yield* Effect.flip(late.append(Buffer.alloc(chunkBytes)))).toMatchObject({ _tag: "DraftLost" })
      expect(yield* Effect.flip(storage.publish(workspace, [whole]))).toMatchObject({ _tag: "DraftLost" })
    })
  )
}
