type Fields = Readonly<Record<string, unknown>>

/**
 * The fields of a form that differ from those it was opened with. Only these are sent, so that saving does not revert what
 * others have changed meanwhile.
 */
export const changedFields = (now: Fields, opened: Fields): Fields =>
  Object.fromEntries(
    Object.entries(now).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(opened[name]))
  )
