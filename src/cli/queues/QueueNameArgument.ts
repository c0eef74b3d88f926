import * as Args from "@effect/cli/Args"

export const argument = Args.text({ name: "queue" }).pipe(Args.withDescription("The queue's name."))
