import { Context, Effect, Exit, Runtime } from "effect"
import { watchdog } from "../core/Watchdog.js"
import { AttemptWatch, type Watched } from "./AttemptWatch.js"
import type { Run } from "./Run.js"

// Heartbeats of activities. Their time limits are those of Effect: `Effect.timeout` inside the activity.

/** The watch of the activity whose code runs. */
class CurrentWatch extends Context.Reference<CurrentWatch>()("nightshift/workflow/CurrentWatch", {
  defaultValue: (): AttemptWatch | undefined => undefined
}) {}

const inside = Effect.flatMap(CurrentWatch, (watch) =>
  watch === undefined
    ? Effect.dieMessage("A heartbeat is only possible inside an activity of a Nightshift workflow.")
    : Effect.succeed(watch)
)

export const heartbeat = (details?: unknown): Effect.Effect<void> =>
  Effect.map(inside, (watch) => watch.heartbeat(details))

export const lastHeartbeat: Effect.Effect<unknown> = Effect.map(inside, ({ last }) => last)

/** Runs the code of an activity, which may send heartbeats. */
export const watched =
  (run: Run, activity: Pick<Watched, "name" | "attempt" | "startedAt">) =>
  <A, E, R>(code: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.gen(function* () {
      const runtime = yield* Effect.runtime<never>()
      const clock = yield* Effect.clock
      const host = {
        execution: run.execution,
        lastHeartbeat: (name: string) => run.lastHeartbeat(name),
        keepHeartbeat: (...beat: Parameters<Run["keepHeartbeat"]>) => run.keepHeartbeat(...beat),
        storeHeartbeat: (beat: Parameters<typeof run.workflows.heartbeat>[1]) =>
          Runtime.runPromise(runtime)(run.workflows.heartbeat(run.execution.run, beat)),
        watch: <B, F>(effect: Effect.Effect<B, F>) => Runtime.runFork(runtime)(watchdog(effect)),
        refusal: (message: string) => new TypeError(message)
      }
      const limits = { timeout: undefined, heartbeatTimeout: undefined }
      const watch = new AttemptWatch(host, () => clock.unsafeCurrentTimeMillis(), { ...activity, ...limits })
      return yield* code.pipe(
        Effect.provideService(CurrentWatch, watch),
        Effect.onExit((exit) =>
          Exit.isSuccess(exit) ? Effect.sync(() => watch.close()) : Effect.promise(() => watch.closeFailed())
        )
      )
    })
