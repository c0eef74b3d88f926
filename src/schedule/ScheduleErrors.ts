import { Schema } from "effect"
import type { InvalidExpression } from "./CronText.js"

/** A schedule that cannot be, with the field at fault. Nothing was written. */
export class InvalidSchedule extends Schema.TaggedError<InvalidSchedule>()("InvalidSchedule", {
  name: Schema.String,
  field: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `Schedule ${JSON.stringify(this.name.slice(0, 80))}: ${this.field} ${this.reason}.`
  }

  static ofExpression(name: string, { part, reason }: InvalidExpression): InvalidSchedule {
    if (part === "timezone") return new InvalidSchedule({ name, field: part, reason })
    return new InvalidSchedule({
      name,
      field: "cron",
      reason: part === "expression" ? reason : `is wrong: its ${part} ${reason}`
    })
  }
}

/** There is no schedule of this name, or no longer. */
export class ScheduleNotFound extends Schema.TaggedError<ScheduleNotFound>()("ScheduleNotFound", {
  name: Schema.String
}) {
  override get message(): string {
    return `There is no schedule ${JSON.stringify(this.name.slice(0, 80))}.`
  }
}

/** A schedule of this name stands. */
export class ScheduleExists extends Schema.TaggedError<ScheduleExists>()("ScheduleExists", { name: Schema.String }) {
  override get message(): string {
    return `There is a schedule "${this.name}" already. Edit it, or choose another name.`
  }
}
