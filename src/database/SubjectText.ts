import { createHash } from "node:crypto"
import type { Effect } from "effect"
import type { SubjectDigest } from "../core/Subject.js"
import type { DatabaseError } from "./DatabaseError.js"

/** Maximum length of a subject. */
export const subjectCharacters = 512

/** The digest that is stored instead of the subject. The SQL function `subject` computes the same. */
export const digestOf = (subject: string): SubjectDigest => createHash("sha256").update(subject).digest("hex")

/** How an act names a subject in the audit log: enough to compare, without its text. */
export const shortOf = (digest: SubjectDigest): string => `sha256:${digest.slice(0, 12)}`

/**
 * Erases what a port has of a subject, in one transaction: at most `eraseBatch` things, and returns how many. 0 means that nothing
 * is left. Or counts them all.
 */
export type Erase = (subject: SubjectDigest, act: "count" | "erase") => Effect.Effect<number, DatabaseError>

/** Maximum number of things that are erased in one transaction. */
export const eraseBatch = 500
