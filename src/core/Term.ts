import { Schema } from "effect"

/** Number of a leader's term. It only increases, so it serves as the fencing token of the leader's writes. */
export const Term = Schema.Int.pipe(Schema.brand("Term"))
export type Term = typeof Term.Type
