import { expect } from "@effect/vitest"

/** Matches the state of a job that waits to run: now, later or again. */
export const waiting: unknown = expect.stringMatching(/^(pending|scheduled|retrying)$/)
