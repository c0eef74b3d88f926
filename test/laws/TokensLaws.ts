import { expect } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { type Law, newWorkspace } from "./Inbox.js"

export const tokensLaws = (law: Law): void => {
  law("a token opens its workspace and no other", ({ tokens, workspace }) =>
    Effect.gen(function* () {
      const { secret } = yield* tokens.create(workspace)
      const text = Redacted.value(secret)
      expect(yield* tokens.verify(workspace, text)).toBe(true)
      expect(yield* tokens.verify(newWorkspace(), text)).toBe(false)
      const changed = `${text.slice(0, -1)}${text.endsWith("A") ? "B" : "A"}`
      for (const given of ["", "nst_", text.slice(0, 12), text.slice(0, -1), `${text}A`, changed, text.toUpperCase()]) {
        expect(yield* tokens.verify(workspace, given)).toBe(false)
      }
    })
  )

  law("a secret is long, random, and shown once", ({ tokens, workspace }) =>
    Effect.gen(function* () {
      const made = yield* Effect.all(Array.from({ length: 20 }, () => tokens.create(workspace)))
      const texts = made.map(({ secret }) => Redacted.value(secret))
      expect(new Set(texts).size).toBe(20)
      for (const text of texts) expect(text).toMatch(/^nst_[0-9a-f]{8}[\w-]{43}$/)
      const listed = JSON.stringify(yield* tokens.list(workspace))
      for (const text of texts) expect(listed).not.toContain(text.slice(12))
      expect(JSON.stringify(made)).not.toContain(texts[0]?.slice(12))
    })
  )

  law("tokens are listed oldest first, with their labels", ({ advance, now, tokens, workspace }) =>
    Effect.gen(function* () {
      const first = yield* tokens.create(workspace, "laptop")
      yield* advance("1 minute")
      const second = yield* tokens.create(workspace, "x".repeat(300))
      yield* tokens.create(newWorkspace(), "somebody else's")
      const listed = yield* tokens.list(workspace)
      expect(listed).toEqual([
        { id: first.id, workspace, prefix: first.prefix, label: "laptop", createdAt: (yield* now) - 60_000 },
        { id: second.id, workspace, prefix: second.prefix, label: "x".repeat(100), createdAt: yield* now }
      ])
    })
  )

  law("a revoked token is refused, and the others still work", ({ tokens, workspace }) =>
    Effect.gen(function* () {
      const lost = yield* tokens.create(workspace)
      const other = yield* tokens.create(workspace)
      expect(yield* tokens.revoke(workspace, lost.id)).toMatchObject({ id: lost.id, prefix: lost.prefix })
      expect(yield* tokens.verify(workspace, Redacted.value(lost.secret))).toBe(false)
      expect(yield* tokens.verify(workspace, Redacted.value(other.secret))).toBe(true)
      expect((yield* tokens.list(workspace)).map(({ id }) => id)).toEqual([other.id])
      expect(yield* Effect.flip(tokens.revoke(workspace, lost.id))).toMatchObject({ _tag: "TokenNotFound" })
      expect(yield* Effect.flip(tokens.revoke(newWorkspace(), other.id))).toMatchObject({ _tag: "TokenNotFound" })
    })
  )
}
