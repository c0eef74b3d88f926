import { Effect, type ExecutionStrategy, FiberRef, Scope } from "effect"

type Finalizer = Scope.Scope.Finalizer

/** A finalizer of the workflow. `step`: the step that it compensates. */
export interface Undo {
  readonly step: string | undefined
  readonly finalizer: Finalizer
}

/** The last step of this fiber: a compensation that is registered next belongs to it. */
const lastStep = FiberRef.unsafeMake<string | undefined>(undefined)

/** The code has received the result of a step. */
export const follow = (step: string): Effect.Effect<void> => FiberRef.set(lastStep, step)

/** The scope of a workflow. It collects the finalizers in `undos`; the end of the code does not run them. */
export const scopeOn = (scope: Scope.CloseableScope, undos: Array<Undo>): Scope.CloseableScope => {
  const add = (step: string | undefined, finalizer: Finalizer) =>
    Effect.sync(() => void undos.push({ step, finalizer }))
  return Object.assign(Object.create(scope) as Scope.CloseableScope, {
    close: () => Effect.void,
    fork: (strategy: ExecutionStrategy.ExecutionStrategy) =>
      Effect.tap(Scope.make(strategy), (child) => add(undefined, (exit) => Scope.close(child, exit))),
    // `withCompensation` registers its finalizer uninterruptibly, right after the step. Others compensate nothing.
    addFinalizer: (finalizer: Finalizer) =>
      Effect.checkInterruptible((interruptible) =>
        interruptible
          ? add(undefined, finalizer)
          : Effect.flatMap(FiberRef.get(lastStep), (step) => add(step, finalizer))
      )
  })
}
