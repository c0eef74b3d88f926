// The events of a job, which its `meta` names: one, or a list.

const isId = (value: unknown): value is string => typeof value === "string" && /^[0-9a-f-]{36}$/.test(value)

const idOf = (about: unknown): unknown => (about as { readonly id?: unknown } | null | undefined)?.id

/** Ids of the events that made a job. Empty for other jobs. */
export const eventIds = (meta: unknown): ReadonlyArray<string> => {
  const { event, events } = Object(meta) as { readonly event?: unknown; readonly events?: unknown }
  return (Array.isArray(events) ? events : [event]).map(idOf).filter(isId)
}
