// Names of calls in the journal and in the waits.

/** What the names of some kinds of calls start with. Those of `step.waitFor` are the names of signals. */
export const prefixes = { patch: "patch:", set: "set:", ask: "ask:", message: "next:" } as const

/** The name of a call of this kind, before it is numbered. */
export const nameOf = (kind: string, base: string): string =>
  kind in prefixes ? `${prefixes[kind as keyof typeof prefixes]}${base}` : base

/** The name of a call of `step.next` without its prefix, and without that of the undo that made the call. The number stays. */
export const withoutPrefix = (name: string): string => name.replace(/^(?:undo:.*\/)?next:/, "")

/** The signal whose values a call of `step.next` takes. */
export const signalOf = (name: string): string => withoutPrefix(name).replace(/#\d+$/, "")

/** The name of a call of `step.waitForEvent`. A later journal of the execution has its own waits. */
export const eventWait = (event: string, continued: number): string =>
  continued === 0 ? `event:${event}` : `event:${event}@${continued}`

/** The event that such a call waits for, undefined for other calls. */
export const eventOf = (name: string): string | undefined =>
  /^(?:undo:.*\/)?event:(.*?)(?:@\d+)?(?:#\d+)?$/.exec(name)?.[1]
