import { limits } from "../core/Job.js"
import { storableText } from "../core/StorableText.js"

/** What is kept of an error's text: its beginning, and nothing that PostgreSQL cannot store. */
export const errorText = (text: string): string => storableText(text, limits.errorCharacters)
