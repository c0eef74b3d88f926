import { FiberRef } from "effect"
import type { SubjectDigest } from "./Subject.js"

/** The subject of the job that this fiber runs. What it stores has the same, unless it names another. */
export const ownSubject: FiberRef.FiberRef<SubjectDigest | undefined> = FiberRef.unsafeMake<SubjectDigest | undefined>(
  undefined
)
