import type { Token } from "../../access/Tokens.js"

/** What the audit keeps of a token, which lets nobody in. */
export const of = ({ id, label, prefix, workspace }: Token) => ({ id, workspace, prefix, label })
