import { Effect, type Fiber, FiberRef } from "effect"

// Rollback for the tables in memory: every write registers an undo function, and a failed transaction runs them in
// reverse.

/** A transaction in memory. */
interface Transaction {
  /** Undo functions, latest last. */
  readonly undos: Array<() => void>
  readonly outer: Transaction | undefined
  isOver: boolean
}

/**
 * The last transaction that the fiber has begun. It stays here when it is over, because a change of a fiber's references
 * copies all of them.
 */
const begunLast: FiberRef.FiberRef<Transaction | undefined> = FiberRef.unsafeMake<Transaction | undefined>(undefined)

const innermostOpen = (last: Transaction | undefined): Transaction | undefined => {
  let open = last
  while (open?.isOver === true) open = open.outer
  return open
}

/** Whether the fiber is in a transaction. */
export const isOpenIn = (fiber: Fiber.RuntimeFiber<unknown, unknown>): boolean =>
  innermostOpen(fiber.getFiberRef(begunLast)) !== undefined

/** Registers an undo function that runs if the current transaction fails. */
export const remember = (undo: () => void): Effect.Effect<void> =>
  Effect.withFiberRuntime((fiber) => {
    rememberIn(fiber, undo)
    return Effect.void
  })

/** `remember` as a plain function, for the transaction of the given fiber. */
export const rememberIn = (fiber: Fiber.RuntimeFiber<unknown, unknown>, undo: () => void): void =>
  void innermostOpen(fiber.getFiberRef(begunLast))?.undos.push(undo)

const begin = FiberRef.modify(begunLast, (last) => {
  const begun: Transaction = { undos: [], outer: innermostOpen(last), isOver: false }
  return [begun, begun]
})

/**
 * Runs the effect as a transaction in memory, or as part of the enclosing one. `onBegin` receives a function that rolls back
 * an unfinished transaction, for simulations that kill the process running it, and returns what to call at the end.
 */
export const transaction = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  onBegin: (takeBack: () => void) => () => void = () => () => {}
): Effect.Effect<A, E, R> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(begin, (transaction) => {
      const { outer, undos } = transaction
      const takeBack = () => {
        for (const undo of undos.splice(0).reverse()) undo()
      }
      const onEnd = onBegin(takeBack)
      const end = () => {
        transaction.isOver = true
        undos.length = 0
        onEnd()
      }
      return Effect.matchCauseEffect(restore(effect), {
        onFailure: (cause) => {
          takeBack()
          end()
          return Effect.failCause(cause)
        },
        onSuccess: (value) => {
          outer?.undos.push(...undos)
          end()
          return Effect.succeed(value)
        }
      })
    })
  )
