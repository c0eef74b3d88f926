import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Scope } from "effect"
import * as WakeupsModule from "../../src/queue/Wakeups.js"

describe("Wakeups", () => {
  it.scoped("call every listener of the queue, and all listeners when all queues are woken", () =>
    Effect.gen(function* () {
      const { onWake, wake, wakeAll } = yield* WakeupsModule.Wakeups
      const calls: Array<string> = []
      yield* onWake("mail", () => calls.push("first"))
      yield* onWake("mail", () => calls.push("second"))
      yield* onWake("other", () => calls.push("other"))
      yield* wake("mail")
      yield* wake("nobody")
      expect(calls.splice(0)).toEqual(["first", "second"])
      yield* wakeAll
      expect(calls).toEqual(["first", "second", "other"])
    }).pipe(Effect.provide(WakeupsModule.layer))
  )

  it.effect("stop when the listener's Scope closes, even for one of two with the same function", () =>
    Effect.gen(function* () {
      const { onWake, wake } = yield* WakeupsModule.Wakeups
      const scope = yield* Scope.make()
      let calls = 0
      const listener = () => {
        calls += 1
      }
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* onWake("mail", listener)
          yield* Scope.extend(onWake("mail", listener), scope)
          yield* wake("mail")
          expect(calls).toBe(2)
          yield* Scope.close(scope, Exit.void)
          yield* wake("mail")
          expect(calls).toBe(3)
        })
      )
      yield* wake("mail")
      expect(calls).toBe(3)
    }).pipe(Effect.provide(WakeupsModule.layer))
  )
})
