import { Schema } from "effect"
import { Expected } from "../core/ExpectedError.js"
import type { InvalidExpression } from "./CronText.js"

/** The schedule was rejected because of the named field. Nothing was written. */
export class InvalidSchedule extends Expected<InvalidSchedule>(400)("InvalidSchedule", {
  /** Schedule that was declared or edited. */
  name: Schema.String,
  /** Name of the invalid field, such as `cron` or `timezone`. */
  field: Schema.String,
  /** What is wrong with the field, as the end of a sentence. */
  reason: Schema.String
}) {
  override get message(): string {
    return `Schedule ${JSON.stringify(this.name.slice(0, 80))}: ${this.field} ${this.reason}.`
  }

  /** The error of a schedule whose expression or time zone is invalid. */
  static ofExpression(name: string, { part, reason }: InvalidExpression): InvalidSchedule {
    if (part === "timezone") return new InvalidSchedule({ name, field: part, reason })
    return new InvalidSchedule({
      name,
      field: "cron",
      reason: part === "expression" ? reason : `is invalid: its ${part} ${reason}`
    })
  }
}

/** No schedule has this name, or it was removed. */
export class ScheduleNotFound extends Expected<ScheduleNotFound>(404)("ScheduleNotFound", {
  /** Name that was looked up. */
  name: Schema.String
}) {
  override get message(): string {
    return `There is no schedule ${JSON.stringify(this.name.slice(0, 80))}. Check the name with \`nightshift schedules list\`.`
  }
}

/** A schedule of this name exists. Nothing was written. */
export class ScheduleExists extends Expected<ScheduleExists>(409, { field: "name" })("ScheduleExists", {
  /** Name that another schedule already has. */
  name: Schema.String
}) {
  override get message(): string {
    return `Schedule "${this.name}" already exists. Edit it, or choose another name.`
  }
}
