import { storableText } from "../core/StorableText.js"
import { limits } from "../core/StoredJob.js"

/** What is kept of an error's text: its beginning, and nothing that PostgreSQL cannot store. */
export const errorText = (text: string): string => storableText(text, limits.errorCharacters)
