/** What a release writes, and its section of the changelog. */
export interface Plan {
  readonly changes: ReadonlyMap<string, string>
  readonly notes: { readonly name: string; readonly date?: string; readonly text: string } | undefined
  /** Entries that stay under "Unreleased". */
  readonly left: string
}

export declare const planOf: (root: string, version: string, date: string) => Plan

/** The section as text of a release on GitHub, where relative links lead nowhere. */
export declare const releaseNotes: (root: string, version: string, plan: Plan) => string | undefined

/** Writes what the plan changes, commits it and tags the commit. */
export declare const commit: (root: string, version: string, plan: Plan) => void

/** Runs git in a folder and returns what it prints. */
export declare const git: (root: string, ...args: ReadonlyArray<string>) => string
