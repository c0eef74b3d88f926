import { describe, expect, it } from "@effect/vitest"
import { Context, Effect, Layer, Logger } from "effect"
import * as Listener from "../../src/database/Listener.js"
import { Notifier } from "../../src/queue/Notifier.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import * as TestDatabase from "../support/TestDatabase.js"

describe("Notifier", () => {
  it.live("stops without logging an error", () => {
    const lines: Array<string> = []
    const logged = Logger.replace(
      Logger.defaultLogger,
      Logger.make(({ message }) => void lines.push(String(message)))
    )
    const layer = Notifier.layer.pipe(
      Layer.provideMerge(Layer.merge(Wakeups.layer, Listener.layerPolling)),
      Layer.provideMerge(TestDatabase.layer)
    )
    return Effect.gen(function* () {
      const { onWake } = Context.get(yield* Layer.build(layer), Wakeups.Wakeups)
      yield* onWake("mail", () => {})
      // The loop gets to where it waits for a notification.
      for (let turn = 0; turn < 20; turn += 1) yield* Effect.yieldNow()
    }).pipe(Effect.scoped, Effect.provide(logged), Effect.andThen(Effect.sync(() => expect(lines).toEqual([]))))
  })
})
