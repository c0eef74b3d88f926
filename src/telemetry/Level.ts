/** Levels as they are written. */
export type Level = "trace" | "debug" | "info" | "warn" | "error" | "fatal"
