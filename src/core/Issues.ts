// What a validator says about a value, in the shape of Standard Schema.

/** What is wrong with a value, and where. */
export interface Issue {
  /** Property names and array indexes that lead to the invalid value. Empty for the value itself. */
  readonly path: ReadonlyArray<PropertyKey>
  /** What the validator says about the value. */
  readonly message: string
}

/** An issue as validators return it. */
export interface RawIssue {
  readonly message: string
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined
}

export const issueOf = ({ message, path }: RawIssue): Issue => ({
  // Some validators return subclasses of Array.
  path: Array.from(path ?? [], (step) => (typeof step === "object" ? step.key : step)),
  message
})

/** Formats a path: `payload.items[2].price`. */
export const pathText = (root: string, path: ReadonlyArray<PropertyKey>): string =>
  path.reduce<string>((text, step) => {
    if (typeof step === "number") return `${text}[${step}]`
    return text === "" ? String(step) : `${text}.${String(step)}`
  }, root)

/** Issues as one sentence without its full stop. Without a root, paths are relative. */
export const issuesText = (root: string, issues: ReadonlyArray<Issue>): string =>
  issues
    .slice(0, 5)
    .map(({ message, path }) => {
      const place = pathText(root, path)
      return `${place === "" ? "" : `${place}: `}${message.replace(/\.+$/, "")}`
    })
    .join("; ")
