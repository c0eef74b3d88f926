import type { Token } from "../../access/Tokens.js"

/** A token as stored in the audit log, without its secret. */
export const of = ({ id, label, prefix, workspace }: Token) => ({ id, workspace, prefix, label })
