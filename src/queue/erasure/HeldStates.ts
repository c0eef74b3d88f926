import { State } from "../../core/StoredJob.js"

/** A count of 0 for each state. */
export const emptyStates = (): Record<State, number> =>
  Object.fromEntries(State.literals.map((state) => [state, 0])) as Record<State, number>
