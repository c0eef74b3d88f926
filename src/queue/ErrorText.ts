import { storableText } from "../core/Storable.js"
import { limits } from "../core/StoredJob.js"

/** Returns the part of an error message that is stored: truncated, without characters that PostgreSQL rejects. */
export const errorText = (text: string): string => storableText(text, limits.errorCharacters)
