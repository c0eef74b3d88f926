import type { FaultRow } from "./faults-page.mjs"

export const rowOf: (
  setup: string,
  result: { readonly held: string; readonly on?: string; readonly saw: string; readonly recoveryMillis?: number }
) => FaultRow | undefined
