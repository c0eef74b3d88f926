import { useEffect, useState } from "preact/hooks"
import { address, get } from "./Api"

// One event stream for the whole page. The browser reconnects after a broken connection, but not after an error
// response, such as a proxy's while the service restarts; this module reconnects then. Every connection starts with a
// snapshot, so missed events do not matter.

export type Link = "live" | "paused" | "away"

export interface QueueNews {
  readonly name: string
  readonly counts: Readonly<Record<string, number>>
  readonly oldestDueAgeSeconds: number | null
}

export interface News {
  readonly link: Link
  /** Incremented at every event, so that dependent resources reload. */
  readonly pulse: number
  readonly queues: ReadonlyArray<QueueNews> | undefined
  /** Current warnings; undefined until the first event. */
  readonly warnings: ReadonlyArray<string> | undefined
}

let news: News = { link: "away", pulse: 0, queues: undefined, warnings: undefined }
const listeners = new Set<() => void>()
let source: EventSource | undefined
let again: number | undefined
/** Reconnect delay in milliseconds. */
const patience = 3_000

const tell = (change: Partial<News>) => {
  news = { ...news, ...change }
  for (const listener of listeners) listener()
}

interface Told {
  /** All queues in a snapshot (`queues`), only the changed ones otherwise (`changed`). */
  readonly queues?: ReadonlyArray<QueueNews>
  readonly changed?: ReadonlyArray<QueueNews>
  readonly warnings?: ReadonlyArray<{ readonly message: string }>
}

const parsed = (event: MessageEvent<string>): Told => {
  try {
    return JSON.parse(event.data)
  } catch {
    return {}
  }
}

const hear = (event: MessageEvent<string>) => {
  const { changed, queues = changed, warnings } = parsed(event)
  tell({
    link: "live",
    pulse: news.pulse + 1,
    ...(queues === undefined ? {} : { queues: merged(news.queues ?? [], queues) }),
    ...(warnings === undefined ? {} : { warnings: warnings.map(({ message }) => message) })
  })
}

const merged = (known: ReadonlyArray<QueueNews>, fresh: ReadonlyArray<QueueNews>) => {
  const byName = new Map(known.map((queue) => [queue.name, queue]))
  for (const queue of fresh) byName.set(queue.name, queue)
  return [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}

/**
 * Checks the session before reconnecting, so that an expired login leads to the login page instead of endless retries.
 */
const retry = (broken: EventSource): void => {
  const unless = (next: () => void) => () => source === broken && next()
  again = window.setTimeout(
    () =>
      get("session").then(
        unless(connect),
        unless(() => retry(broken))
      ),
    patience
  )
}

export const connect = (): void => {
  disconnect()
  const opened = new EventSource(address("events"), { withCredentials: true })
  source = opened
  source.onopen = () => tell({ link: "live" })
  source.onerror = () => {
    tell({ link: "away" })
    if (opened.readyState === EventSource.CLOSED) retry(opened)
  }
  for (const kind of ["snapshot", "queues", "pods", "jobs", "warnings"])
    source.addEventListener(kind, (event) => hear(event as MessageEvent<string>))
}

export const disconnect = (): void => {
  clearTimeout(again)
  source?.close()
  source = undefined
}

export const pause = (still: boolean): void => {
  if (still) {
    disconnect()
    tell({ link: "paused" })
  } else connect()
}

export const useNews = (): News => {
  const [current, setCurrent] = useState(news)
  useEffect(() => {
    const listen = () => setCurrent(news)
    listeners.add(listen)
    listen()
    return () => void listeners.delete(listen)
  }, [])
  return current
}
