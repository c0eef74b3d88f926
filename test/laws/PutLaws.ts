import { createHash } from "node:crypto"
import { expect } from "@effect/vitest"
import { Effect } from "effect"
import type { UploadId } from "../../src/core/Ids.js"
import { digestOf } from "../../src/database/SubjectText.js"
import { chunkBytes } from "../../src/uploads/Upload.js"
import { type Law, newWorkspace } from "./Inbox.js"

const mib = 1024 * 1024

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex")

/** Bytes that differ by position, so that a misplaced chunk is noticed. */
export const pattern = (size: number): Buffer => {
  const bytes = Buffer.allocUnsafe(size)
  for (let index = 0; index < size; index += 1) bytes[index] = (index * 31 + (index >> 8)) & 0xff
  return bytes
}

export const putLaws = (law: Law): void => {
  law("a file is stored whole, with its metadata", ({ now, put, read, storage, workspace }) =>
    Effect.gen(function* () {
      const content = pattern(2 * chunkBytes + 17)
      const id = yield* put(content, { filename: "report.pdf", mimetype: "application/pdf" })
      const { upload } = yield* storage.get(workspace, id)
      expect(upload).toEqual({
        id,
        workspace,
        filename: "report.pdf",
        mimetype: "application/pdf",
        size: content.length,
        sha256: sha256(content),
        createdAt: yield* now,
        expiresAt: (yield* now) + 24 * 3_600_000,
        fetchedAt: undefined,
        ackedAt: undefined
      })
      expect((yield* read(id)).equals(content)).toBe(true)
    })
  )

  law("several files are stored in order, and an empty list stores none", ({ names, storage, workspace }) =>
    Effect.gen(function* () {
      const files = ["c", "a", "b"].map((filename) => ({ filename, mimetype: "", content: Buffer.from(filename) }))
      const ids = yield* storage.putMany(workspace, files)
      expect(yield* storage.putMany(workspace, [])).toEqual([])
      expect(yield* names).toEqual(["c", "a", "b"])
      for (const [index, id] of ids.entries()) {
        expect((yield* storage.get(workspace, id)).upload.filename).toBe(files[index]?.filename)
      }
    })
  )

  law(
    "an invalid file is refused with its index, and nothing of its request is stored",
    ({ names, storage, workspace }) =>
      Effect.gen(function* () {
        const good = { filename: "good", mimetype: "text/plain", content: Buffer.from("x") }
        const refused = (file: Partial<typeof good>) =>
          Effect.flip(storage.putMany(workspace, [good, { ...good, ...file }]))
        const at = (field: string) => ({ _tag: "InvalidUpload", index: 1, field })
        expect(yield* refused({ content: Buffer.alloc(0) })).toMatchObject(at("content"))
        expect(yield* refused({ filename: "" })).toMatchObject(at("filename"))
        expect(yield* refused({ filename: "x".repeat(256) })).toMatchObject(at("filename"))
        expect(yield* refused({ filename: "a\u0000b" })).toMatchObject(at("filename"))
        expect(yield* refused({ filename: "\ud800" })).toMatchObject(at("filename"))
        expect(yield* refused({ mimetype: "x".repeat(256) })).toMatchObject(at("mimetype"))
        const large = yield* refused({ filename: "large", content: Buffer.alloc(mib + 1) })
        expect(large).toMatchObject({ _tag: "UploadTooLarge", filename: "large", size: mib + 1, max: mib })
        expect(yield* names).toEqual([])
      })
  )

  law("a name may have a hundred characters, and content a single byte", ({ put, read }) =>
    Effect.gen(function* () {
      const id = yield* put("x", { filename: "ñ".repeat(255) })
      expect((yield* read(id)).toString()).toBe("x")
    })
  )

  law("each workspace has its own quota, which counts files in every state", (inbox) =>
    Effect.gen(function* () {
      const { put, storage, workspace } = inbox
      const file = { filename: "a", mimetype: "", content: Buffer.alloc(mib) }
      for (let kept = 0; kept < 3; kept += 1) yield* storage.put(workspace, file)
      expect(yield* storage.kept(workspace)).toBe(3 * mib)
      const acked = yield* put("x".repeat(mib))
      yield* storage.ack(workspace, acked)
      const refused = yield* Effect.flip(put("y"))
      expect(refused).toMatchObject({ _tag: "QuotaExceeded", kept: 4 * mib, size: 1, max: 4 * mib })
      yield* storage.put(newWorkspace(), file)
      yield* storage.sweep(0)
      yield* put("y")
    })
  )

  law("files of an erased subject are deleted, in every state", (inbox) =>
    Effect.gen(function* () {
      const { draft, put, read, storage, workspace } = inbox
      const subject = digestOf(workspace)
      const file = { filename: "ada.txt", mimetype: "text/plain", content: Buffer.from("Ada") }
      const ids = [...(yield* storage.putMany(workspace, [file, file], subject))]
      const published = yield* storage.publish(workspace, [yield* draft([Buffer.from("Ada")])], subject)
      ids.push(...published.map(({ id }) => id))
      const other = yield* put("kept")
      yield* storage.ack(workspace, ids[0] as UploadId)
      expect(yield* storage.erase(subject, "count")).toBe(3)
      expect(yield* storage.erase(subject, "erase")).toBe(3)
      expect(yield* storage.erase(subject, "erase")).toBe(0)
      for (const id of ids)
        expect(yield* Effect.flip(storage.get(workspace, id))).toMatchObject({ _tag: "UploadNotFound" })
      expect((yield* read(other)).toString()).toBe("kept")
    })
  )

  law("ranges of content are read across chunks", ({ put, read }) =>
    Effect.gen(function* () {
      const content = pattern(3 * chunkBytes)
      const id = yield* put(content)
      const edges = [0, 1, chunkBytes - 1, chunkBytes, chunkBytes + 1, 2 * chunkBytes - 1, content.length - 1]
      for (const first of edges) {
        for (const last of edges.filter((edge) => edge >= first)) {
          expect((yield* read(id, { first, last })).equals(content.subarray(first, last + 1))).toBe(true)
        }
      }
    })
  )
}
