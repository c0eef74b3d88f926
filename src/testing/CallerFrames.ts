/** Stack frames of the test that called `method` of the harness; without one, of the test that reads the calling getter. */
export const callerFrames = (method?: (...args: never) => unknown): ReadonlyArray<string> => {
  const caller: { stack?: string } = {}
  Error.captureStackTrace(caller, method ?? callerFrames)
  return (
    (caller.stack ?? "")
      .split("\n")
      .slice(method === undefined ? 2 : 1)
      // Skips frames of Node and of packages, which include this one when it is installed.
      .filter((frame) => !/node_modules|node:|<anonymous>/.test(frame))
  )
}

/** Replaces the error's frames, which are inside the harness, by those of the test that called it. */
export const showFrames = (error: Error, frames: ReadonlyArray<string>): void => {
  error.stack = [`${error.name}: ${error.message}`, ...frames].join("\n")
}
