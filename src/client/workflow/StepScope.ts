import { AsyncLocalStorage } from "node:async_hooks"
import { Predicate } from "effect"

// Which code runs inside a step, also after it has awaited something. Before Node 24, following code over its awaits
// makes every promise of the process slower, so this is done only for code that returns a promise.

interface Scope {
  /** The run of the execution, compared by identity. */
  readonly run: object
  /** Undefined in the code of an undo, which may call steps. */
  readonly step: string | undefined
}

const scopes = new AsyncLocalStorage<Scope>()

/** How much code is being followed. */
let followed = 0

/** Names of steps whose code did not return a promise the last time. */
const direct = new Set<string>()
const maxDirectNames = 1_000

/** The scope of the code that runs in this moment and is not followed. */
let current: Scope | undefined

const release = () => {
  followed -= 1
  if (followed === 0) scopes.disable()
}

const follow = <A>(scope: Scope, code: () => A): A => {
  followed += 1
  let isPending = false
  try {
    const result = scopes.run(scope, code)
    isPending = Predicate.isPromiseLike(result)
    if (Predicate.isPromiseLike(result)) result.then(release, release)
    else if (scope.step !== undefined && direct.size < maxDirectNames) direct.add(scope.step)
    return result
  } finally {
    if (!isPending) release()
  }
}

/** Runs the code of a step. */
export const inside = <A>(run: object, step: string | undefined, code: () => A): A => {
  const scope = { run, step }
  if (step === undefined || !direct.has(step)) return follow(scope, code)
  const outer = current
  current = scope
  try {
    const result = code()
    if (Predicate.isPromiseLike(result)) direct.delete(step)
    return result
  } finally {
    current = outer
  }
}

/** The step of this run whose code makes the call. */
export const stepOf = (run: object): string | undefined => {
  const scope = current ?? scopes.getStore()
  return scope?.run === run ? scope.step : undefined
}
