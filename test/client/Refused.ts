import { expect } from "vitest"
import { ShiftError } from "../../src/client/index.js"

/** The message of the ShiftError with which a call fails. */
export const refused = async (call: () => unknown): Promise<string> => {
  const error: unknown = await Promise.resolve()
    .then(call)
    .catch((caught: unknown) => caught)
  expect(error).toBeInstanceOf(ShiftError)
  return (error as ShiftError).message
}
