export interface Edit {
  readonly file: string
  readonly find: string
  readonly replace: string
}

/** Tests that should notice a mutant; `tests` is a pattern for their full names. */
export interface Tests {
  readonly by: "law" | "simulation" | "fault" | "unit test"
  readonly files: ReadonlyArray<string>
  readonly tests: string
}

export interface Mutant {
  readonly name: string
  readonly what: string
  readonly edits: ReadonlyArray<Edit>
  readonly tests: ReadonlyArray<Tests>
  /** The law or fault that should also notice it, if only unit tests do. */
  readonly toAdd?: string
}

export const mutants: ReadonlyArray<Mutant>
