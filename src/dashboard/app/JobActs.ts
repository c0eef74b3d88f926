import type { State } from "./Views"

export type Act = "cancel" | "requeue" | "run-now" | "delete"

export const actNames: Readonly<Record<Act, string>> = {
  cancel: "Cancel",
  requeue: "Requeue",
  "run-now": "Run now",
  delete: "Delete"
}

export const doneWords: Readonly<Record<Act, string>> = {
  cancel: "cancelled",
  requeue: "requeued",
  "run-now": "due now",
  delete: "deleted"
}

const waiting: ReadonlyArray<State> = ["scheduled", "retrying", "pending"]

export const isWaiting = (state: State): boolean => waiting.includes(state)

/** States in which each action is allowed. The server enforces the same rules. */
const meant: Readonly<Record<Act, ReadonlyArray<State>>> = {
  requeue: ["done", "dead", "cancelled"],
  cancel: [...waiting, "running"],
  "run-now": waiting,
  delete: [...waiting, "done", "dead", "cancelled"]
}

export const acts: ReadonlyArray<Act> = ["requeue", "cancel", "run-now", "delete"]

export const isFor = (act: Act, state: string): boolean => meant[act].some((one) => one === state)

/** Names an action on jobs: `Requeue 12 jobs`. */
export const phrase = (act: Act, jobs: string): string =>
  act === "run-now" ? `Run ${jobs} now` : `${actNames[act]} ${jobs}`

/** Explains why an action does not apply. */
export const notFor = (act: Act): string => `${actNames[act]} applies only to ${meant[act].join(", ")} jobs.`
