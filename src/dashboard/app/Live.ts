import { useEffect, useState } from "preact/hooks"
import { address } from "./Api"

// One stream of news for the whole page. The browser reconnects by itself; every connection begins with a snapshot, so
// whatever was missed meanwhile does not matter.

export type Link = "live" | "paused" | "away"

export interface QueueNews {
  readonly name: string
  readonly counts: Readonly<Record<string, number>>
  readonly oldestDueAgeSeconds: number | null
}

export interface News {
  readonly link: Link
  /** Rises whenever something changed: what depends on the queues reads anew. */
  readonly pulse: number
  readonly queues: ReadonlyArray<QueueNews> | undefined
  readonly warnings: ReadonlyArray<string>
}

let news: News = { link: "away", pulse: 0, queues: undefined, warnings: [] }
const listeners = new Set<() => void>()
let source: EventSource | undefined
let paused = false

const tell = (change: Partial<News>) => {
  news = { ...news, ...change }
  for (const listener of listeners) listener()
}

interface Told {
  /** In a snapshot all of them, in a change those that differ. */
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

export const connect = (): void => {
  source?.close()
  source = new EventSource(address("events"), { withCredentials: true })
  source.onopen = () => tell({ link: "live" })
  source.onerror = () => tell({ link: "away" })
  for (const kind of ["snapshot", "queues", "pods", "jobs", "warnings"])
    source.addEventListener(kind, (event) => hear(event as MessageEvent<string>))
}

export const disconnect = (): void => {
  source?.close()
  source = undefined
}

export const pause = (still: boolean): void => {
  paused = still
  if (paused) {
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
