import { Clock, Context, Effect } from "effect"
import type { AttemptEnd } from "../../src/queue/AttemptEnd.js"
import { Erasure } from "../../src/queue/erasure/Erasure.js"
import { Events } from "../../src/queue/events/Events.js"
import { Queue } from "../../src/queue/Queue.js"
import { type QueueSettingsPatch, Queues } from "../../src/queue/settings/QueueSettings.js"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import type { SimulationOptions } from "../../src/testing/effect.js"

// Parts of the bugs in Tampered.ts: they change one service of the database that a simulation runs on.

export type Tamper = NonNullable<SimulationOptions<never>["tamper"]>
export type Tables = Parameters<Tamper>[0]
export type QueueService = typeof Queue.Service
export type WorkflowsService = typeof Workflows.Service

export const queueWith =
  (change: (queue: QueueService, tables: Tables) => Partial<QueueService>): Tamper =>
  (tables) => {
    const queue = Context.get(tables, Queue)
    return Context.add(tables, Queue, { ...queue, ...change(queue, tables) })
  }

export const workflowsWith =
  (change: (workflows: WorkflowsService) => Partial<WorkflowsService>): Tamper =>
  (tables) => {
    const workflows = Context.get(tables, Workflows)
    return Context.add(tables, Workflows, { ...workflows, ...change(workflows) })
  }

export const eventsWith =
  (change: (events: typeof Events.Service) => Partial<typeof Events.Service>): Tamper =>
  (tables) => {
    const events = Context.get(tables, Events)
    return Context.add(tables, Events, { ...events, ...change(events) })
  }

export const erasureWith =
  (change: (erasure: typeof Erasure.Service) => Partial<typeof Erasure.Service>): Tamper =>
  (tables) => {
    const erasure = Context.get(tables, Erasure)
    return Context.add(tables, Erasure, { ...erasure, ...change(erasure) })
  }

export const settingsWith =
  (change: (patch: QueueSettingsPatch) => QueueSettingsPatch): Tamper =>
  (tables) => {
    const queues = Context.get(tables, Queues)
    return Context.add(tables, Queues, { ...queues, change: (name, patch) => queues.change(name, change(patch)) })
  }

export const withEnd = (end: AttemptEnd, change: Partial<AttemptEnd>): AttemptEnd => ({
  id: end.id,
  lease: end.lease,
  end: end.end,
  queue: end.queue,
  key: end.key,
  written: (became, now) => end.written?.(became, now),
  ...change
})

/** Runs the effect with a clock that is ahead. */
export const early = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Effect.clock, (clock) => {
    const ahead = () => clock.unsafeCurrentTimeMillis() + 3_000
    return Effect.withClock(effect, {
      ...clock,
      [Clock.ClockTypeId]: Clock.ClockTypeId,
      unsafeCurrentTimeMillis: ahead,
      currentTimeMillis: Effect.sync(ahead)
    })
  })
