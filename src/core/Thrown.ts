import { Cause, Tracer } from "effect"

// JavaScript can throw anything, and reading a thrown value may throw again: a getter, a trap of a proxy, `toString`.
// Inside Effect's runtime or the handler of a rejected promise, that ends the process. So every value that user code
// throws passes through `plain` before anything else reads it.

/** The text for a value that cannot be read. */
export const unreadable = "a value was thrown that cannot be read"

/** The fields that Effect, the loggers and ErrorText read from a thrown value. */
const read = ["_tag", "name", "message", "stack", "toString", "toJSON", Symbol.toPrimitive, Symbol.toStringTag] as const

/** Maximum number of nested errors to examine. */
const maxNestedErrors = 20

const isObject = (value: unknown): value is object =>
  (typeof value === "object" && value !== null) || typeof value === "function"

/** Throws if the value, or an error nested in it, cannot be read. */
const examine = (value: unknown, seen: Set<unknown>): void => {
  if (!isObject(value) || seen.has(value) || seen.size >= maxNestedErrors) return
  seen.add(value)
  void ("message" in value)
  void Object.getPrototypeOf(value)
  void Object.keys(value)
  for (const name of read) void Reflect.get(value, name)
  examine(Reflect.get(value, "cause"), seen)
  const errors: unknown = Reflect.get(value, "errors")
  if (Array.isArray(errors)) for (const error of errors) examine(error, seen)
}

const textIn = (value: object, name: "name" | "message" | "stack"): string | undefined => {
  try {
    const text: unknown = Reflect.get(value, name)
    return typeof text === "string" ? text : undefined
  } catch {
    return undefined
  }
}

/** A new error with the readable fields of the value. */
const copyOf = (value: object): Error => {
  const copy = new Error(textIn(value, "message") ?? unreadable)
  copy.name = textIn(value, "name") ?? "Error"
  copy.stack = textIn(value, "stack") ?? `${copy.name}: ${copy.message}`
  return copy
}

/** The thrown value itself if it can be read, otherwise an error in its place. Never throws. */
export const plain = (thrown: unknown): unknown => {
  if (!isObject(thrown)) return thrown
  try {
    examine(thrown, new Set())
    return thrown
  } catch {
    return copyOf(thrown)
  }
}

/** A cause whose errors and defects can be read. */
export const plainCause = <E>(cause: Cause.Cause<E>): Cause.Cause<E> =>
  Cause.match(cause, {
    onEmpty: Cause.empty as Cause.Cause<E>,
    onFail: (error) => Cause.fail(plain(error) as E),
    onDie: (defect) => Cause.die(plain(defect)),
    onInterrupt: (fiber) => Cause.interrupt(fiber),
    onSequential: Cause.sequential,
    onParallel: Cause.parallel
  })

/**
 * Reads a cause with functions of Effect. Never throws: they fail for an error that is its own cause, for example, and then leave
 * `Error.stackTraceLimit` at the 1 that they need, so that all later stack traces of the process would have one line.
 */
export const readCause = <E, A>(cause: Cause.Cause<E>, read: (cause: Cause.Cause<E>) => A, otherwise: () => A): A => {
  const { stackTraceLimit } = Error
  try {
    return read(plainCause(cause))
  } catch {
    Error.stackTraceLimit = stackTraceLimit
    return otherwise()
  }
}

/**
 * A tracer that makes values thrown by user code readable. Effect runs each step of a fiber in `context`, and reads a value
 * that is thrown there without a guard.
 */
export const guarded = (tracer: Tracer.Tracer): Tracer.Tracer =>
  Tracer.make({
    span: (...args) => tracer.span(...args),
    context: (step, fiber) => {
      try {
        return tracer.context(step, fiber)
      } catch (error) {
        throw plain(error)
      }
    }
  })
