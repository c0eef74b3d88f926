import { Schema } from "effect"
import { type Answer, Expected } from "./ExpectedError.js"

/** Sentence prefix that names the invalid job of a request. Empty when the request has only one job. */
export const jobPrefix = ({
  index,
  jobs = 1
}: {
  readonly index: number
  readonly jobs?: number | undefined
}): string => (jobs === 1 ? "" : `Job ${index}: `)

/** A job was rejected because of the named field. No job of the request was stored. */
export class InvalidJob extends Expected<InvalidJob>(400, { exit: 2 })("InvalidJob", {
  /** Index of the job in the request, starting at 0. */
  index: Schema.Int,
  /** Number of jobs in the request. [1] */
  jobs: Schema.optional(Schema.Int),
  /** Name of the invalid field, such as `payload` or `dedupe.key`. */
  field: Schema.String,
  /** What is wrong with the field, as the end of a sentence: `must not be negative`. */
  reason: Schema.String
}) {
  override get message(): string {
    return `${jobPrefix(this)}${this.field} ${this.reason}.`
  }

  override get answer(): Answer {
    return { ...InvalidJob.answer, field: `jobs[${this.index}].${this.field}` }
  }
}
