import { Duration, Effect, Either, FiberRef, Layer } from "effect"
import { BadCursor } from "../../core/BadCursor.js"
import { isId, type JobId } from "../../core/Ids.js"
import { idleUntil } from "../../core/Loop.js"
import { ownSubject } from "../../core/OwnSubject.js"
import { stateOf } from "../../core/StoredJob.js"
import { subjectMeta } from "../../core/Subject.js"
import { Hints } from "../../database/Hints.js"
import { enqueueAll } from "../enqueue/EnqueueMemory.js"
import { type JobFields, jobOf } from "../Job.js"
import { JobTable } from "../JobTableMemory.js"
import { Kinds, type RegisteredKind } from "../Kinds.js"
import { type Decide, Routes, routed } from "../settings/Routes.js"
import * as SignalValuesMemory from "../workflow/SignalValuesMemory.js"
import { WorkflowTable } from "../workflow/WorkflowTableMemory.js"
import type { EventJob, Subscription } from "./Event.js"
import {
  checked,
  checkedId,
  EventNotFound,
  Events,
  type EventWait,
  jobIdOf,
  type Match,
  type NewSubscription,
  NotSubscribed,
  subscriptionTopic
} from "./Events.js"
import { matches } from "./Match.js"
import * as Windows from "./WindowsMemory.js"

interface EventRow extends Windows.Event {
  readonly replays: ReadonlyArray<JobId>
  /** The jobs of its windows that are closed, by subscriber. */
  readonly windowJobs: Readonly<Record<string, JobId>>
  /** The subscribers that were to get earlier events when it was published. */
  readonly delivered: ReadonlyArray<string>
}

interface SubscriptionRow extends Omit<NewSubscription, "window">, Omit<Subscription, "compares" | "match"> {}

interface WaitRow extends EventWait {
  readonly since: number
  readonly taken: string | undefined
}

const unseen = { replays: [], windowJobs: {} }

type Known = ReadonlyMap<string, RegisteredKind>

const keyOf = (...parts: ReadonlyArray<string>) => JSON.stringify(parts)

const isEqual = (left: Match, right: Match) => JSON.stringify(left) === JSON.stringify(right)

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
  /** Events in open windows, by event and subscriber. */
  const open = new Map<string, Windows.WindowedEvent>()

  /** Sets or deletes an entry. An enclosing transaction that fails restores it. */
  const set = <V>(map: Map<string, V>, key: string, value: V | undefined) => {
    const before = map.get(key)
    if (value === undefined) map.delete(key)
    else map.set(key, value)
    jobs.onRollback(() => (before === undefined ? map.delete(key) : map.set(key, before)))
  }

  // Events that the code has not received end waits of the next journal.
  workflows.lifetimes.onEndOfJournal((job, steps) => {
    const own = [...waits].filter(([, wait]) => wait.job === job)
    const isReceived = (name: string) =>
      steps.some((step) => step.name === name && (step.kind === "signal" || step.kind === "undo"))
    for (const [key, { name }] of own) if (!isReceived(name)) set(waits, key, undefined)
    return new Set(own.map(([, { name }]) => name))
  })

  const subscribersOf = (event: string) =>
    [...subscriptions.values()]
      .filter((each) => each.event === event)
      .sort((left, right) => (left.kind < right.kind ? -1 : 1))

  /** Reads what a change needs of other services first: a change is synchronous. */
  const changing = <A>(act: (now: number, known: Known, queueOf: Decide) => A) =>
    Effect.flatMap(Effect.all([kinds.all, routes.current]), ([all, queueOf]) =>
      jobs.atomically((now) => act(now, new Map(all.map((kind) => [kind.name, kind])), queueOf))
    )

  /** Stores a job. Returns whether it is new. A job of version 1 has the data of one event, one of version 2 a list. */
  const store = (
    kind: RegisteredKind | undefined,
    version: 1 | 2,
    content: JobFields,
    now: number,
    queueOf: Decide
  ): boolean => {
    if (kind === undefined || (content.id !== undefined && jobs.get(content.id) !== undefined)) return false
    const job = { ...jobOf(kind, content), version }
    return Either.isRight(enqueueAll(jobs, () => undefined, [routed(job, queueOf)], now))
  }

  /** Stores the job of an event for a subscriber. Returns whether it is new. */
  const deliver = (event: EventRow, kind: RegisteredKind | undefined, id: JobId, now: number, queueOf: Decide) => {
    const { data, id: eventId, key, name, publishedAt, subject } = event
    const about = {
      id: eventId,
      name,
      publishedAt: new Date(publishedAt).toISOString(),
      ...(key === undefined ? {} : { key })
    }
    return store(kind, 1, { id, payload: data, key, meta: { event: about, ...subjectMeta(subject) } }, now, queueOf)
  }

  const windowOf = (event: string, kind: string) => subscriptions.get(keyOf(event, kind))?.window
  const windows = () => [...subscriptions.values()].flatMap(({ window }) => window ?? [])
  const dueAt = () => Windows.dueAt(open.values(), windowOf)

  /** Stores a job of the event for a subscriber, or puts it into its window. Returns whether there is a new job. */
  const receive = (event: EventRow, { kind, window }: SubscriptionRow, known: Known, now: number, queueOf: Decide) => {
    const key = keyOf(event.id, kind)
    const id = jobIdOf(event.id, kind)
    if (open.has(key) || event.windowJobs[kind] !== undefined) return false
    if (window === undefined) return deliver(event, known.get(kind), id, now, queueOf)
    if (jobs.get(id) === undefined) set(open, key, Windows.of(event, kind, window))
    return false
  }

  const fits = ({ match }: SubscriptionRow, { data }: EventRow) => match === undefined || matches(match, data)

  const endWaits = (event: EventRow, now: number) => {
    const isTaker = (wait: WaitRow) =>
      wait.event === event.name && wait.taken === undefined && matches(wait.match, event.data)
    for (const [key, wait] of [...waits].filter(([, wait]) => isTaker(wait))) {
      const { execution, name } = wait
      const row = jobs.get(wait.job)
      if (row === undefined || row.finishedAt !== undefined) continue
      set(waits, key, { ...wait, taken: event.id })
      SignalValuesMemory.put(workflows, { execution, name, exit: event.data, id: undefined }, now)
      workflows.wake(execution, now)
    }
  }

  const publish: typeof Events.Service.publish = (given) =>
    Effect.flatMap(
      Effect.flatMap(FiberRef.get(ownSubject), (own) => checked(given, own)),
      (all) =>
        changing((now, known, queueOf) =>
          all.map(({ data, id: ownId, key, name, subject }) => {
            const first = ownId === undefined ? undefined : ownIds.get(keyOf(name, ownId))
            if (first !== undefined) return { id: first, outcome: "repeated" as const, jobs: 0 }
            const id = jobs.ids.plain(now)
            const event: EventRow = {
              id,
              name,
              publishedAt: now,
              key,
              ownId,
              subject,
              data: JSON.parse(data),
              ...unseen,
              delivered: subscribersOf(name).flatMap(({ fillFromAt, kind }) => (fillFromAt === undefined ? [] : kind))
            }
            set(events, id, event)
            if (ownId !== undefined) set(ownIds, keyOf(name, ownId), id)
            const made = subscribersOf(name).filter(
              (each) => fits(each, event) && receive(event, each, known, now, queueOf)
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
            set(subscriptions, key, { ...fresh, ...each, window: each.window, createdAt, fillFromAt: from })
          }
        }),
        given.some(({ past, window }) => past !== undefined || window !== undefined)
          ? hints.publish(subscriptionTopic, "all")
          : Effect.void
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
        .map(([, { createdAt, event, fillFromAt, match, subscriber, window }]) => ({
          event,
          subscriber,
          createdAt,
          fillFromAt,
          window,
          match,
          compares: match !== undefined || (window?.by ?? []).length > 0
        }))
    ),
    fill: changing((now, known, queueOf) => {
      let made = 0
      for (const [key, subscription] of [...subscriptions]) {
        const { event: name, fillFromAt, kind } = subscription
        if (fillFromAt === undefined) continue
        for (const event of [...events.values()]) {
          if (event.name !== name || event.publishedAt < fillFromAt || !fits(subscription, event)) continue
          if (event.delivered.includes(kind)) continue
          if (receive(event, subscription, known, now, queueOf)) made += 1
        }
        set(subscriptions, key, { ...subscription, fillFromAt: undefined })
      }
      return { jobs: made, isOpen: false }
    }).pipe(Effect.zipLeft(idleUntil(() => (isAnyOpen() ? 0 : Number.POSITIVE_INFINITY)))),
    closeWindows: changing((now, known, queueOf) => {
      let made = 0
      for (const { events: joined, id, kind } of Windows.closing(open.values(), windowOf, now)) {
        if (!store(known.get(kind), 2, { id, ...Windows.contentOf(joined) }, now, queueOf)) continue
        made += 1
        for (const { id: each } of joined) {
          const event = events.get(each)
          if (event !== undefined) set(events, each, { ...event, windowJobs: { ...event.windowJobs, [kind]: id } })
          set(open, keyOf(each, kind), undefined)
        }
      }
      return { jobs: made, nextAt: Windows.lookAt(now, windows(), dueAt()) }
    }).pipe(Effect.zipLeft(idleUntil(dueAt, "exactly"))),
    get: (id) =>
      Effect.flatMap(find(id), ({ delivered: _, replays, subject: __, windowJobs, ...event }) =>
        jobs.atomically((now) => {
          const jobOfId = (job: JobId, subscriber: string, replayed: boolean): EventJob => {
            const row = jobs.get(job)
            const state = row === undefined ? undefined : stateOf({ ...row, reason: row.reason }, now)
            const meta =
              row?.meta === undefined ? {} : (JSON.parse(row.meta) as { readonly events?: ReadonlyArray<unknown> })
            const size = row === undefined ? 0 : (meta.events?.length ?? 1)
            const isOpen = !replayed && open.has(keyOf(id, subscriber))
            return { subscriber: row?.kind ?? subscriber, id: job, state, replayed, isOpen, events: size }
          }
          const made = subscribersOf(event.name).map(({ kind }) =>
            jobOfId(windowJobs[kind] ?? jobIdOf(id, kind), kind, false)
          )
          return { ...event, jobs: [...made, ...replays.map((job) => jobOfId(job, "", true))] }
        })
      ),
    list: ({ cursor, limit, name }) =>
      Effect.gen(function* () {
        if (cursor !== undefined && !isId(cursor)) return yield* new BadCursor({ cursor })
        const found = [...events.values()]
          .filter((event) => (name === undefined || event.name === name) && (cursor === undefined || event.id < cursor))
          .sort((left, right) => (left.id < right.id ? 1 : -1))
        const page = found
          .slice(0, limit)
          .map(({ delivered: _, replays: __, subject: ___, windowJobs: ____, ...event }) => event)
        return { events: page, next: found.length > limit ? page.at(-1)?.id : undefined }
      }),
    replay: (id, kind) =>
      Effect.flatMap(find(id), (event) =>
        Effect.flatten(
          changing((now, known, queueOf) => {
            const job = jobs.ids.job(now)
            const subscription = subscriptions.get(keyOf(event.name, kind))
            const stored =
              subscription?.window === undefined
                ? subscription !== undefined && deliver(event, known.get(kind), job, now, queueOf)
                : store(known.get(kind), 2, { id: job, ...Windows.contentOf([event]) }, now, queueOf)
            if (!stored) return Either.left(new NotSubscribed({ event: event.name, subscriber: kind }))
            set(events, id, { ...event, replays: [...event.replays, job] })
            return Either.right(job)
          })
        )
      ),
    wait: ({ ends = false, ...wait }) =>
      jobs.atomically(() => {
        const key = keyOf(wait.execution, wait.name)
        const fresh = { ...wait, since: jobs.get(wait.job)?.createdAt ?? 0, taken: undefined }
        const before = waits.get(key) ?? fresh
        // An earlier execution with this id, or earlier code, has waited for something else.
        const known =
          before.job === wait.job && (before.taken !== undefined || isEqual(before.match, wait.match)) ? before : fresh
        const taken = new Set([...waits.values()].flatMap((each) => (each.job === wait.job ? (each.taken ?? []) : [])))
        const isFirst = (event: EventRow) =>
          event.name === known.event &&
          event.publishedAt >= known.since &&
          !taken.has(event.id) &&
          matches(known.match, event.data)
        const found = known.taken === undefined ? [...events.values()].find(isFirst) : events.get(known.taken)
        set(waits, key, found === undefined && ends ? undefined : { ...known, taken: found?.id })
        return found === undefined ? { settled: true } : { data: found.data }
      }),
    erase: (subject, act) =>
      jobs.atomically(() => {
        const found = [...events.values()].filter((event) => event.subject === subject)
        if (act === "count") return found.length
        for (const event of found) {
          removeEvent(event)
          for (const [key, waiting] of [...open]) if (waiting.event.id === event.id) set(open, key, undefined)
        }
        return found.length
      }),
    purge: (olderThan) =>
      jobs
        .atomically((now) => {
          const waiting = new Set([...open.values()].map(({ event }) => event.id))
          const before = now - Duration.toMillis(olderThan)
          const old = [...events.values()].filter(({ id, publishedAt }) => publishedAt < before && !waiting.has(id))
          for (const event of old) removeEvent(event)
          // An execution that has ended may be requeued: its other waits must not take the same events.
          for (const [key, { job, taken }] of [...waits]) {
            const row = jobs.get(job)
            if (row === undefined || (row.finishedAt !== undefined && taken === undefined)) set(waits, key, undefined)
          }
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
