import { limits } from "../core/Job.js"

const halfPair = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

/** What is kept of an error's text: its beginning, and nothing that PostgreSQL cannot store. */
export const errorText = (text: string): string =>
  // Cut first: the cut itself may leave half of a surrogate pair behind.
  text.slice(0, limits.errorCharacters).replaceAll("\u0000", "\ufffd").replace(halfPair, "\ufffd")
