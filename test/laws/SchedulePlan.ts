import { Clock, Effect } from "effect"
import { Transactions } from "../../src/queue/Transactions.js"
import type { ScheduleDefinition } from "../../src/schedule/ScheduleDefinition.js"
import { Schedules } from "../../src/schedule/Schedules.js"
import type { Advance } from "./Line.js"

export type Ports = Schedules | Transactions

export const hour = 3_600_000

/** The context of a law: no schedules, a clock at a full hour, and helpers. */
export interface Plan {
  readonly schedules: typeof Schedules.Service
  readonly transactions: typeof Transactions.Service
  readonly advance: Advance
  readonly now: Effect.Effect<number>
  /** A name that no other law uses. */
  readonly name: (more?: string) => string
  /** A definition that fires at every full hour. */
  readonly hourly: (more?: Partial<ScheduleDefinition>) => ScheduleDefinition
  readonly dueNames: Effect.Effect<ReadonlyArray<string>, unknown>
}

let opened = 0

export const open = (advance: Advance): Effect.Effect<Plan, unknown, Ports> =>
  Effect.gen(function* () {
    opened += 1
    const own = `law-${String(opened).padStart(3, "0")}`
    const schedules = yield* Schedules
    const left = yield* schedules.list({ limit: 1_000 })
    yield* Effect.forEach(left, ({ name }) => schedules.remove(name))
    yield* advance(hour - ((yield* Clock.currentTimeMillis) % hour))
    const name = (more?: string) => (more === undefined ? own : `${own}-${more}`)
    return {
      schedules,
      transactions: yield* Transactions,
      advance,
      now: Clock.currentTimeMillis,
      name,
      hourly: (more = {}) => ({
        name: own,
        kind: "greet",
        payload: { name: "Ada" },
        cron: "0 * * * *",
        timezone: "UTC",
        queue: undefined,
        attempts: undefined,
        overlap: "allow",
        missed: "one",
        paused: false,
        ...more
      }),
      dueNames: Effect.map(schedules.due(100), (due) => due.map((schedule) => schedule.name))
    }
  })

export type Law = (title: string, story: (plan: Plan) => Effect.Effect<void, unknown, never>) => void
