// Names of the calls of `step.next` in the journal and in the waits, like `next:message#2`: the prefix tells them from those of
// `step.waitFor`, which are the names of signals.

export const prefix = "next:"

/** The name without the prefix, and without that of the undo that made the call. The number stays. */
export const withoutPrefix = (name: string): string => name.replace(/^(?:undo:.*\/)?next:/, "")

/** The signal whose values the call takes. */
export const signalOf = (name: string): string => withoutPrefix(name).replace(/#\d+$/, "")
