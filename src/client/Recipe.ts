import type { KindDefaults } from "../core/KindDefaults.js"

// `nightshift/client`, the command line and a program with Effect each have their own copy of Effect, and what one copy has made
// must not run in another. A handler therefore carries what the program passed to make it. A worker of another copy makes its
// own handler from that (see Handlers).

/** The property of a handler with its recipe. */
export const recipe: unique symbol = Symbol.for("nightshift/client/recipe")

/** The call that made a handler, and its arguments. */
export interface Recipe {
  readonly call: "handle" | "handleInTransaction" | "workflow" | "push" | "on" | "webhooks"
  readonly name: string
  readonly options: unknown
  /** The function that runs jobs, or the endpoint that they are sent to. */
  readonly run: unknown
}

/** Runs the jobs of a kind. Pass it to `worker` or `testShift`, or export it from the module of `nightshift serve --app`. */
export interface Handler {
  /** Name, queue and other defaults of the jobs that it runs. A worker has one handler per kind. */
  readonly kind: KindDefaults
  /** How the handler was made, for workers of another copy of this package. */
  readonly [recipe]: Recipe
}
