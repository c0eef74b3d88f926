export const groups: ReadonlyArray<"processes" | "server" | "network" | "middle" | "versions" | "settings">

export interface FaultRow {
  readonly group: string
  readonly fault: string
  readonly promise: string
  readonly held: string
  readonly recovery: string
  readonly limit: string
  readonly sees: string
}

export const matrixFault: (fault: string, setup: string) => string
export const update: (page: string, rows: ReadonlyArray<FaultRow>, options: { readonly isWholeRun: boolean }) => string
