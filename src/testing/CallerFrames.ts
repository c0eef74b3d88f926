/** Stack frames of the test that called this method of the harness, or reads the getter that calls this function. */
export const callerFrames = (method?: (...args: never) => unknown): ReadonlyArray<string> => {
  const caller: { stack?: string } = {}
  Error.captureStackTrace(caller, method ?? callerFrames)
  return (
    (caller.stack ?? "")
      .split("\n")
      .slice(method === undefined ? 2 : 1)
      // Packages, among them this one when it is installed, and Node.
      .filter((frame) => !/node_modules|node:|<anonymous>/.test(frame))
  )
}

/** Shows where the test called the harness instead of frames of the harness. */
export const showFrames = (error: Error, frames: ReadonlyArray<string>): void => {
  error.stack = [`${error.name}: ${error.message}`, ...frames].join("\n")
}
