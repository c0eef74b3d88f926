import type { Mutant } from "./mutants.mjs"

export interface Result {
  readonly mutant: Mutant
  /** What noticed it; undefined if nothing did. */
  readonly by?: string | undefined
  readonly test?: string | undefined
}

export const marker: string
export const rowsOf: (page: string) => ReadonlyMap<string, string>
export const update: (page: string, all: ReadonlyArray<Mutant>, results: ReadonlyArray<Result>) => string
