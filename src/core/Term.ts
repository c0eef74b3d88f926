import { Schema } from "effect"

/** The number of a leader's reign. It only rises, so it fences every write that is made in the cluster's name. */
export const Term = Schema.Int.pipe(Schema.brand("Term"))
export type Term = typeof Term.Type
