import type { State } from "./Views"

export type Act = "cancel" | "requeue" | "run-now" | "delete"

export const actNames: Readonly<Record<Act, string>> = {
  cancel: "Cancel",
  requeue: "Requeue",
  "run-now": "Run now",
  delete: "Delete"
}

/** The states of jobs that an act can be done to. The server holds to the same. */
const meant: Readonly<Record<Act, ReadonlyArray<State>>> = {
  requeue: ["done", "dead"],
  cancel: ["scheduled", "retrying", "pending", "running"],
  "run-now": ["scheduled", "retrying", "pending"],
  delete: ["scheduled", "retrying", "pending", "done", "dead"]
}

export const acts: ReadonlyArray<Act> = ["requeue", "cancel", "run-now", "delete"]

export const isFor = (act: Act, state: string): boolean => meant[act].some((one) => one === state)

/** Why nothing would come of it. */
export const notFor = (act: Act): string => `${actNames[act]} is for jobs that are ${meant[act].join(" or ")}.`
