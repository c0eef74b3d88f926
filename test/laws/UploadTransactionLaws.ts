import { expect } from "@effect/vitest"
import { Effect } from "effect"
import { chunkBytes } from "../../src/uploads/Upload.js"
import type { Inbox, Law } from "./Inbox.js"

/** Runs the effect in a transaction that fails afterwards. */
const undone = ({ transactions }: Inbox, effect: Effect.Effect<unknown, unknown>) =>
  Effect.map(Effect.flip(transactions.run(Effect.zipRight(effect, Effect.fail("no")))), (error) =>
    expect(error).toBe("no")
  )

export const uploadTransactionLaws = (law: Law): void => {
  law("files that are stored in a transaction commit or roll back with it", (inbox) =>
    Effect.gen(function* () {
      const { names, put, storage, transactions, workspace } = inbox
      const file = (filename: string) => ({ filename, mimetype: "", content: Buffer.from(filename) })
      yield* undone(inbox, storage.putMany(workspace, [file("a"), file("b")]))
      expect(yield* names).toEqual([])
      expect(yield* storage.kept(workspace)).toBe(0)
      const seen = yield* transactions.run(Effect.zipRight(put("c", { filename: "c" }), names))
      expect(seen).toEqual(["c"])
      expect(yield* names).toEqual(["c"])
      // A savepoint.
      yield* transactions.run(Effect.zipRight(Effect.ignore(undone(inbox, put("d"))), put("e", { filename: "e" })))
      expect((yield* names).toSorted()).toEqual(["c", "e"])
    })
  )

  law("drafts are hidden again if the transaction that published them fails, and keep what arrived in it", (inbox) =>
    Effect.gen(function* () {
      const { draft, names, read, storage, workspace } = inbox
      const first = yield* storage.begin({ filename: "first", mimetype: "" })
      yield* undone(inbox, first.append(Buffer.alloc(chunkBytes, 1)))
      yield* first.append(Buffer.from([2]))
      const drafts = [yield* first.end, yield* draft([Buffer.from("second")], "second")]
      yield* undone(inbox, storage.publish(workspace, drafts))
      expect(yield* names).toEqual([])
      yield* undone(inbox, storage.discard(drafts.map(({ id }) => id)))
      const [published] = yield* storage.publish(workspace, drafts)
      expect((yield* names).toSorted()).toEqual(["first", "second"])
      const content = published === undefined ? undefined : yield* read(published.id)
      expect(content?.equals(Buffer.concat([Buffer.alloc(chunkBytes, 1), Buffer.from([2])]))).toBe(true)
    })
  )

  law("a fetch, an acknowledgement and a sweep roll back with the transaction", (inbox) =>
    Effect.gen(function* () {
      const { names, put, storage, workspace } = inbox
      yield* inbox.clean
      const id = yield* put("x", { filename: "x" })
      const state = Effect.map(storage.get(workspace, id), ({ upload }) => [upload.fetchedAt, upload.ackedAt])
      yield* undone(inbox, storage.markFetched(workspace, id))
      yield* undone(inbox, storage.ack(workspace, id))
      expect(yield* state).toEqual([undefined, undefined])
      expect(yield* names).toEqual(["x"])
      yield* storage.ack(workspace, id)
      yield* undone(
        inbox,
        Effect.map(storage.sweep(0), ({ acked }) => expect(acked).toBe(1))
      )
      expect(yield* state).toEqual([undefined, yield* inbox.now])
      expect((yield* inbox.read(id)).toString()).toBe("x")
    })
  )
}
