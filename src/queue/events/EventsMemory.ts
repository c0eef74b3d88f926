import { Duration, Effect, Either, Layer } from "effect"
import { BadCursor } from "../../core/BadCursor.js"
import { isId, type JobId } from "../../core/Ids.js"
import { idleUntil } from "../../core/Loop.js"
import { stateOf } from "../../core/StoredJob.js"
import { Hints } from "../../database/Hints.js"
import { enqueueAll } from "../enqueue/EnqueueMemory.js"
import { jobOf } from "../Job.js"
import { JobTable } from "../JobTableMemory.js"
import { Kinds, type RegisteredKind } from "../Kinds.js"
import { type Decide, Routes, routed } from "../settings/Routes.js"
import * as SignalValuesMemory from "../workflow/SignalValuesMemory.js"
import { WorkflowTable } from "../workflow/WorkflowTableMemory.js"
import type { EventJob, StoredEvent, Subscription } from "./Event.js"
import {
  checked,
  checkedId,
  EventNotFound,
  Events,
  type EventWait,
  jobIdOf,
  type NewSubscription,
  NotSubscribed,
  subscriptionTopic
} from "./Events.js"
import { matches } from "./Match.js"

interface EventRow extends StoredEvent {
  readonly replays: ReadonlyArray<JobId>
}

interface SubscriptionRow extends NewSubscription, Subscription {}

interface WaitRow extends EventWait {
  readonly since: number
  readonly taken: string | undefined
}

const keyOf = (...parts: ReadonlyArray<string>) => JSON.stringify(parts)

const make = Effect.gen(function* () {
  const jobs = yield* JobTable
  const workflows = yield* WorkflowTable
  const kinds = yield* Kinds
  const routes = yield* Routes
  const hints = yield* Hints
  const events = new Map<string, EventRow>()
  const ownIds = new Map<string, string>()
  const subscriptions = new Map<string, SubscriptionRow>()
  const waits = new Map<string, WaitRow>()

  /** Sets or deletes an entry. An enclosing transaction that fails restores it. */
  const set = <V>(map: Map<string, V>, key: string, value: V | undefined) => {
    const before = map.get(key)
    if (value === undefined) map.delete(key)
    else map.set(key, value)
    jobs.onRollback(() => (before === undefined ? map.delete(key) : map.set(key, before)))
  }

  const subscribersOf = (event: string) =>
    [...subscriptions.values()]
      .filter((each) => each.event === event)
      .sort((left, right) => (left.kind < right.kind ? -1 : 1))

  /** Reads what a change needs of other services first: a change is synchronous. */
  const changing = <A>(act: (now: number, known: ReadonlyMap<string, RegisteredKind>, queueOf: Decide) => A) =>
    Effect.flatMap(Effect.all([kinds.all, routes.current]), ([all, queueOf]) =>
      jobs.atomically((now) => act(now, new Map(all.map((kind) => [kind.name, kind])), queueOf))
    )

  /** Stores the job of an event for a subscriber. Returns whether it is new. */
  const deliver = (event: EventRow, kind: RegisteredKind | undefined, id: JobId, now: number, queueOf: Decide) => {
    if (kind === undefined || jobs.get(id) !== undefined) return false
    const { data, id: eventId, key, name, publishedAt } = event
    const about = {
      id: eventId,
      name,
      publishedAt: new Date(publishedAt).toISOString(),
      ...(key === undefined ? {} : { key })
    }
    const job = jobOf(kind, { id, payload: data, key, meta: { event: about } })
    return Either.isRight(enqueueAll(jobs, () => undefined, [routed(job, queueOf)], now))
  }

  const fits = ({ match }: SubscriptionRow, { data }: EventRow) => match === undefined || matches(match, data)

  const endWaits = (event: EventRow, now: number) => {
    const isTaker = (wait: WaitRow) =>
      wait.event === event.name && wait.taken === undefined && wait.since <= now && matches(wait.match, event.data)
    for (const [key, wait] of [...waits].filter(([, wait]) => isTaker(wait))) {
      const { execution, name } = wait
      if (workflows.executionRow(execution)?.finishedAt !== undefined) continue
      set(waits, key, { ...wait, taken: event.id })
      SignalValuesMemory.put(workflows, { execution, name, exit: event.data, id: undefined }, now)
      workflows.wake(execution, now)
    }
  }

  const publish: typeof Events.Service.publish = (given) =>
    Effect.flatMap(checked(given), (all) =>
      changing((now, known, queueOf) =>
        all.map(({ data, id: ownId, key, name }) => {
          const first = ownId === undefined ? undefined : ownIds.get(keyOf(name, ownId))
          if (first !== undefined) return { id: first, outcome: "repeated" as const, jobs: 0 }
          const id = jobs.ids.plain(now)
          const event: EventRow = { id, name, publishedAt: now, key, ownId, data: JSON.parse(data), replays: [] }
          set(events, id, event)
          if (ownId !== undefined) set(ownIds, keyOf(name, ownId), id)
          const made = subscribersOf(name).filter(
            (each) => fits(each, event) && deliver(event, known.get(each.kind), jobIdOf(id, each.kind), now, queueOf)
          )
          endWaits(event, now)
          return { id, outcome: "published" as const, jobs: made.length }
        })
      )
    )

  const isAnyOpen = () => [...subscriptions.values()].some(({ fillFromAt }) => fillFromAt !== undefined)

  const find = (id: string) =>
    Effect.flatMap(checkedId(id), () => {
      const event = events.get(id)
      return event === undefined ? new EventNotFound({ id }) : Effect.succeed(event)
    })

  const removeEvent = (event: EventRow) => {
    set(events, event.id, undefined)
    if (event.ownId !== undefined) set(ownIds, keyOf(event.name, event.ownId), undefined)
  }

  return Events.of({
    publish,
    // Without a database the caller has no transaction, so the events are stored immediately.
    publishInside: (_, given) => publish(given),
    subscribe: (served, given) =>
      Effect.zipRight(
        jobs.atomically((now) => {
          const declared = new Set(given.map(({ event, kind }) => keyOf(event, kind)))
          for (const [key, { kind }] of [...subscriptions])
            if (served.includes(kind) && !declared.has(key)) set(subscriptions, key, undefined)
          for (const each of given) {
            const key = keyOf(each.event, each.kind)
            const fillFromAt = each.past === undefined ? undefined : Math.max(0, now - each.past)
            const fresh = { subscriber: each.kind, createdAt: now, fillFromAt }
            const { createdAt, fillFromAt: from } = subscriptions.get(key) ?? fresh
            set(subscriptions, key, { ...fresh, ...each, createdAt, fillFromAt: from })
          }
        }),
        given.some(({ past }) => past !== undefined) ? hints.publish(subscriptionTopic, "all") : Effect.void
      ),
    unsubscribe: (event, subscriber) =>
      Effect.flatMap(
        jobs.atomically(() => {
          const key = keyOf(event, subscriber)
          const isKnown = subscriptions.has(key)
          set(subscriptions, key, undefined)
          return isKnown
        }),
        (isKnown) => (isKnown ? Effect.void : new NotSubscribed({ event, subscriber }))
      ),
    subscriptions: jobs.atomically(() =>
      [...subscriptions.entries()]
        .sort(([left], [right]) => (left < right ? -1 : 1))
        .map(([, { createdAt, event, fillFromAt, subscriber }]) => ({ event, subscriber, createdAt, fillFromAt }))
    ),
    fill: changing((now, known, queueOf) => {
      let made = 0
      for (const [key, subscription] of [...subscriptions]) {
        const { event: name, fillFromAt, kind } = subscription
        if (fillFromAt === undefined) continue
        for (const event of [...events.values()]) {
          if (event.name !== name || event.publishedAt < fillFromAt || !fits(subscription, event)) continue
          if (deliver(event, known.get(kind), jobIdOf(event.id, kind), now, queueOf)) made += 1
        }
        set(subscriptions, key, { ...subscription, fillFromAt: undefined })
      }
      return { jobs: made, isOpen: false }
    }).pipe(Effect.zipLeft(idleUntil(() => (isAnyOpen() ? 0 : Number.POSITIVE_INFINITY)))),
    get: (id) =>
      Effect.flatMap(find(id), ({ replays, ...event }) =>
        jobs.atomically((now) => {
          const jobOfId = (job: JobId, subscriber: string, replayed: boolean): EventJob => {
            const row = jobs.get(job)
            const state = row === undefined ? undefined : stateOf({ ...row, reason: row.reason }, now)
            return { subscriber: row?.kind ?? subscriber, id: job, state, replayed }
          }
          const made = subscribersOf(event.name).map(({ kind }) => jobOfId(jobIdOf(id, kind), kind, false))
          return { ...event, jobs: [...made, ...replays.map((job) => jobOfId(job, "", true))] }
        })
      ),
    list: ({ cursor, limit, name }) =>
      Effect.gen(function* () {
        if (cursor !== undefined && !isId(cursor)) return yield* new BadCursor({ cursor })
        const found = [...events.values()]
          .filter((event) => (name === undefined || event.name === name) && (cursor === undefined || event.id < cursor))
          .sort((left, right) => (left.id < right.id ? 1 : -1))
        const page = found.slice(0, limit).map(({ replays: _, ...event }) => event)
        return { events: page, next: found.length > limit ? page.at(-1)?.id : undefined }
      }),
    replay: (id, kind) =>
      Effect.flatMap(find(id), (event) =>
        Effect.flatten(
          changing((now, known, queueOf) => {
            const job = jobs.ids.job(now)
            const isKnown = subscriptions.has(keyOf(event.name, kind))
            if (!isKnown || !deliver(event, known.get(kind), job, now, queueOf))
              return Either.left(new NotSubscribed({ event: event.name, subscriber: kind }))
            set(events, id, { ...event, replays: [...event.replays, job] })
            return Either.right(job)
          })
        )
      ),
    wait: (wait) =>
      jobs.atomically(() => {
        const key = keyOf(wait.execution, wait.name)
        const known = waits.get(key) ?? { ...wait, since: jobs.get(wait.job)?.createdAt ?? 0, taken: undefined }
        const taken = new Set(
          [...waits.values()].flatMap((each) => (each.execution === wait.execution ? (each.taken ?? []) : []))
        )
        const isFirst = (event: EventRow) =>
          event.name === known.event &&
          event.publishedAt >= known.since &&
          !taken.has(event.id) &&
          matches(known.match, event.data)
        const found = known.taken === undefined ? [...events.values()].find(isFirst) : events.get(known.taken)
        set(waits, key, { ...known, taken: found?.id })
        return found === undefined ? { settled: true } : { data: found.data }
      }),
    purge: (olderThan) =>
      jobs
        .atomically((now) => {
          const old = [...events.values()].filter(({ publishedAt }) => publishedAt < now - Duration.toMillis(olderThan))
          for (const event of old) removeEvent(event)
          for (const [key, { execution }] of [...waits])
            if (workflows.executionRow(execution)?.finishedAt !== undefined) set(waits, key, undefined)
          return old.length
        })
        .pipe(
          Effect.zipLeft(
            idleUntil(() =>
              Math.min(...[...events.values()].map((each) => each.publishedAt + Duration.toMillis(olderThan) + 1))
            )
          )
        )
  })
})

export const layer: Layer.Layer<Events, never, JobTable | WorkflowTable | Kinds | Routes | Hints> = Layer.effect(
  Events,
  make
)
