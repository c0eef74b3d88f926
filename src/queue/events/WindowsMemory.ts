import { Array as Arrays } from "effect"
import { canonicalJson } from "../../core/CanonicalJson.js"
import type { JobId } from "../../core/Ids.js"
import { type SubjectDigest, subjectMeta } from "../../core/Subject.js"
import type { NewJob } from "../NewJob.js"
import type { StoredEvent, Window } from "./Event.js"
import { maxWindowBytes, nextLook, windowJobIdOf } from "./Events.js"
import { valueAt } from "./Match.js"

// Open windows of the in-memory store, as the table `windowed_event` and the SQL function `close_windows`.

/** An event with its subject. */
export interface Event extends StoredEvent {
  readonly subject: SubjectDigest | undefined
}

/** An event in the open window of a subscriber. */
export interface WindowedEvent {
  readonly event: Event
  readonly kind: string
  /** Equal for the events of one window. */
  readonly bucket: string
}

/** The events of a job. */
export interface Part {
  readonly id: JobId
  readonly kind: string
  readonly events: ReadonlyArray<Event>
}

export const of = (event: Event, kind: string, { by }: Window): WindowedEvent => ({
  event,
  kind,
  bucket: canonicalJson([
    event.name,
    kind,
    event.key ?? null,
    by.map((path) => valueAt(event.data, path)),
    event.subject
  ])
})

/** The payload and `meta` of a job with several events. */
export const contentOf = (events: ReadonlyArray<Event>): Pick<NewJob, "payload" | "key" | "meta"> => {
  const { key, name, subject } = events[0] as Event
  return {
    payload: events.map(({ data }) => data),
    key,
    meta: {
      event: { name, ...(key === undefined ? {} : { key }) },
      events: events.map(({ id, publishedAt }) => ({ id, publishedAt: new Date(publishedAt).toISOString() })),
      ...subjectMeta(subject)
    }
  }
}

type WindowOf = (event: string, kind: string) => Window | undefined

interface Bucket {
  readonly kind: string
  readonly events: ReadonlyArray<Event>
  readonly window: Window | undefined
  /** When no further event was published for long enough. */
  readonly dueAt: number
}

const bucketsOf = (open: Iterable<WindowedEvent>, windowOf: WindowOf): ReadonlyArray<Bucket> =>
  Object.values(Arrays.groupBy(open, ({ bucket }) => bucket)).map((rows) => {
    const [{ event, kind }] = rows
    const window = windowOf(event.name, kind)
    const events = rows.map((row) => row.event).sort((left, right) => (left.id < right.id ? -1 : 1))
    const last = Math.max(...events.map(({ publishedAt }) => publishedAt))
    return { kind, events, window, dueAt: window === undefined ? 0 : last + window.debounce }
  })

/** The jobs of a window that is due or full. */
const partsOf = ({ dueAt, events, kind, window }: Bucket, now: number): ReadonlyArray<Part> => {
  const max = window?.max ?? 100
  const ready = dueAt <= now ? events : events.slice(0, Math.floor(events.length / max) * max)
  let bytes = 0
  const placed = ready.map((event, place) => {
    bytes += Buffer.byteLength(JSON.stringify(event.data)) + 2
    return { event, part: `${Math.floor(place / max)} ${Math.floor(bytes / maxWindowBytes)}` }
  })
  return Object.values(Arrays.groupBy(placed, ({ part }) => part)).map((part) => ({
    id: windowJobIdOf(part[0].event.id, kind),
    kind,
    events: part.map(({ event }) => event)
  }))
}

/** The jobs of all windows that are to be closed. */
export const closing = (open: Iterable<WindowedEvent>, windowOf: WindowOf, now: number): ReadonlyArray<Part> =>
  bucketsOf(open, windowOf).flatMap((bucket) => partsOf(bucket, now))

/** When the next window is to be closed. Infinity if none is open. */
export const dueAt = (open: Iterable<WindowedEvent>, windowOf: WindowOf): number =>
  Math.min(
    ...bucketsOf(open, windowOf).map(({ dueAt, events, window }) => (events.length >= (window?.max ?? 100) ? 0 : dueAt))
  )

/** When a loop should look again. Undefined if no subscriber has windows. */
export const lookAt = (now: number, windows: ReadonlyArray<Window>, due: number): number | undefined =>
  windows.length === 0 && due === Number.POSITIVE_INFINITY
    ? undefined
    : nextLook(now, Math.min(...windows.map(({ debounce }) => debounce)), due)
