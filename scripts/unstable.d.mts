import type { Report } from "./vitest-report.mjs"

export interface Unstable {
  readonly name: string
  readonly failures: number
  readonly message: string
}

export const unstable: (reports: ReadonlyArray<Report>) => ReadonlyArray<Unstable>
