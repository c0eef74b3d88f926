import { useEffect, useState } from "preact/hooks"
import { address, get } from "./Api"

// One stream of news for the whole page. The browser reconnects by itself after a broken connection, but gives up for good
// when somebody answers with an error, as a proxy does while the service starts anew: then it is asked again from here. Every
// connection begins with a snapshot, so whatever was missed meanwhile does not matter.

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
  /** What somebody should look at; unknown until the first news. */
  readonly warnings: ReadonlyArray<string> | undefined
}

let news: News = { link: "away", pulse: 0, queues: undefined, warnings: undefined }
const listeners = new Set<() => void>()
let source: EventSource | undefined
let again: number | undefined
/** How long to wait before asking again, in milliseconds. */
const patience = 3_000

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

/** Asks who we are first: whose login is over is to be told so, instead of knocking for ever. */
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
