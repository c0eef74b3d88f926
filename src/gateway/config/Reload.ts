import { Effect, Layer, Queue as Mailbox } from "effect"
import { repeatLoop, single } from "../../core/Loop.js"
import { onEvent } from "../../core/LoopSchedule.js"
import { Bots } from "../Bots.js"

/** Every SIGHUP until the Scope closes. They do not pile up: one that is waiting stands for all that follow. */
const signals = Effect.gen(function* () {
  const mailbox = yield* Mailbox.sliding<void>(1)
  const listener = () => void Mailbox.unsafeOffer(mailbox, undefined)
  yield* Effect.acquireRelease(
    Effect.sync(() => process.on("SIGHUP", listener)),
    () => Effect.sync(() => process.off("SIGHUP", listener))
  )
  return mailbox
})

/** Reads the file again and says what came of it. */
export const once: Effect.Effect<void, never, Bots> = Effect.flatMap(Bots, (bots) =>
  Effect.matchEffect(bots.reload, {
    onFailure: (error) =>
      Effect.logError(
        `the bots stay as they are, because their file cannot be used: ${"message" in error ? error.message : String(error)}`
      ),
    onSuccess: (declared) =>
      Effect.logInfo(`the bots are read again: ${declared.bots.length} bots, ${declared.sources.length} sources`)
  })
)

/** Reads the file of bots again at every SIGHUP. */
export const layer: Layer.Layer<never, never, Bots> = Layer.scopedDiscard(
  Effect.gen(function* () {
    const mailbox = yield* signals
    const loop = single({
      name: "bots",
      schedule: onEvent(Effect.asVoid(Mailbox.take(mailbox))),
      runAtStart: false,
      run: Effect.provideService(once, Bots, yield* Bots)
    })
    yield* Effect.forkScoped(repeatLoop(loop))
  })
)
