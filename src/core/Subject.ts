// The subject of a job: the person or customer whose data it holds. `meta` has its digest, so that every way to store, move
// and restore a job carries it, and an index finds its jobs.

/** A SHA-256 digest in hexadecimal. */
export type SubjectDigest = string

/** The field of `meta` that has the digest of the subject. The index `job_subject` has the same name. */
export const subjectKey = "subjectDigest"

/** The field of `meta` that says when the data of a job was erased. Its `meta` has no other. */
export const erasedKey = "subjectErasedAt"

/** The part of `meta` that names a subject. */
export const subjectMeta = (digest: SubjectDigest | undefined): Readonly<Record<string, unknown>> =>
  digest === undefined ? {} : { [subjectKey]: digest }

const textAt = (meta: unknown, key: string): string | undefined => {
  const value = (meta as Readonly<Record<string, unknown>> | null | undefined)?.[key]
  return typeof value === "string" ? value : undefined
}

/** The digest in the `meta` of a job. */
export const subjectOf = (meta: unknown): SubjectDigest | undefined => textAt(meta, subjectKey)

/** When the job was erased, in epoch milliseconds. */
export const erasedAtOf = (meta: unknown): number | undefined => {
  const at = textAt(meta, erasedKey)
  const millis = at === undefined ? Number.NaN : Date.parse(at)
  return Number.isNaN(millis) ? undefined : millis
}
