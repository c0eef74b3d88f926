import { Effect, Layer, Queue as Mailbox } from "effect"
import { repeated } from "../../core/Loop.js"
import { onEvent } from "../../core/LoopSchedule.js"
import { Bots } from "../Bots.js"

/** Receives SIGHUP until the Scope closes. Signals that arrive during a reload are coalesced into one. */
const signals = Effect.gen(function* () {
  const mailbox = yield* Mailbox.sliding<void>(1)
  const listener = () => void Mailbox.unsafeOffer(mailbox, undefined)
  yield* Effect.acquireRelease(
    Effect.sync(() => process.on("SIGHUP", listener)),
    () => Effect.sync(() => process.off("SIGHUP", listener))
  )
  return mailbox
})

/** Reloads the file and logs the result. */
export const once: Effect.Effect<void, never, Bots> = Effect.flatMap(Bots, (bots) =>
  Effect.matchEffect(bots.reload, {
    onFailure: (error) =>
      Effect.logError(
        `could not reload the bots file, keeping the current bots: ${"message" in error ? error.message : String(error)}`
      ),
    onSuccess: (declared) =>
      Effect.logInfo(`reloaded the bots file: ${declared.bots.length} bots, ${declared.sources.length} sources`)
  })
)

/** Reloads the bots file on every SIGHUP. */
export const layer: Layer.Layer<never, never, Bots> = Layer.scopedDiscard(
  Effect.gen(function* () {
    const mailbox = yield* signals
    const loop = repeated({
      name: "bots",
      schedule: onEvent(Effect.asVoid(Mailbox.take(mailbox))),
      runAtStart: false,
      run: Effect.provideService(once, Bots, yield* Bots)
    })
    yield* Effect.forkScoped(loop)
  })
)
