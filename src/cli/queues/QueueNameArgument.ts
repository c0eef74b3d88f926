import * as Args from "@effect/cli/Args"

/** A queue, by its name. */
export const argument = Args.text({ name: "queue" }).pipe(Args.withDescription("The queue's name."))
