import { type ParseResult, Predicate } from "effect"
import { jobPrefix } from "../core/InvalidJob.js"
import { BadRequest } from "./RequestErrors.js"

type Issue = Pick<ParseResult.ArrayFormatterIssue, "_tag" | "path" | "message">

const reasonOf = ({ _tag, message }: Issue): string => {
  if (_tag === "Missing") return "is missing"
  if (_tag === "Unexpected") return "is not a known field"
  return message
}

/** Formats a path like `jobs[2].dedupe.key`. */
const fieldOf = (path: ReadonlyArray<PropertyKey>): string =>
  path.reduce<string>((text, step) => {
    if (typeof step === "number") return `${text}[${step}]`
    return text === "" ? String(step) : `${text}.${String(step)}`
  }, "")

/** Makes the error for a field of the body, with the same wording as the queue's `InvalidJob`. */
export const at = (path: ReadonlyArray<PropertyKey>, reason: string, body: unknown = undefined): BadRequest => {
  const [first, index, ...rest] = path
  if (path.length === 0) return new BadRequest({ message: `The body ${reason}.` })
  const field = fieldOf(path)
  if (first !== "jobs" || typeof index !== "number") return new BadRequest({ message: `${field} ${reason}.`, field })
  const named = rest.length === 0 ? "it" : fieldOf(rest)
  return new BadRequest({ message: `${jobPrefix({ index, jobs: jobsIn(body) })}${named} ${reason}.`, field })
}

/** Number of jobs in the body; assumes several if unknown. */
const jobsIn = (body: unknown): number =>
  Predicate.hasProperty(body, "jobs") && Array.isArray(body.jobs) ? body.jobs.length : 2

/** Reports the first issue, which is the only one: decoding stops there. */
export const ofIssues = (issues: ReadonlyArray<Issue>, body?: unknown): BadRequest => {
  const [issue] = issues
  if (issue === undefined) return new BadRequest({ message: "The request does not match this route's schema." })
  return at(issue.path, reasonOf(issue), body)
}
