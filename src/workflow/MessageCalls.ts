import * as Workflow from "@effect/workflow/Workflow"
import { type WorkflowEngine, WorkflowInstance } from "@effect/workflow/WorkflowEngine"
import { Effect, type Exit, Schema } from "effect"
import * as Engine from "./EffectEngine.js"
import type { Run } from "./Run.js"

// What code of @effect/workflow takes from its mailbox and shows to readers.

type Requirements = WorkflowEngine | WorkflowInstance

/** The value of a call of the run. Suspends the execution if it has none. */
const called = (
  call: (run: Run, inside: string | undefined) => Effect.Effect<Exit.Exit<unknown, unknown> | undefined, Error>
): Effect.Effect<unknown, never, Requirements> =>
  Effect.gen(function* () {
    const instance = yield* WorkflowInstance
    const exit = yield* call(yield* Engine.currentRun, yield* Engine.insideActivity)
    return yield* exit ?? Workflow.suspend(instance)
  }).pipe(Effect.orDie)

export const next = <A = unknown, I = unknown>(
  signal: string,
  {
    schema = Schema.Unknown as unknown as Schema.Schema<A, I>
  }: { readonly schema?: Schema.Schema<A, I> | undefined } = {}
): Effect.Effect<A, never, Requirements> =>
  Effect.flatMap(
    called((run, inside) => run.awaitMessage(signal, inside)),
    (value) => Effect.orDie(Schema.decodeUnknown(schema)(value))
  )

export const set = (name: string, value: unknown): Effect.Effect<void, never, Requirements> =>
  Effect.asVoid(called((run) => run.set(name, value)))
