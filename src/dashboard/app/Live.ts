import { useEffect, useState } from "preact/hooks"
import { address, get, whenReached } from "./Api"
import { rememberPods } from "./PodNames"
import type { Pod, Queue } from "./Views"

// One event stream for the whole page. The browser reconnects after a broken connection, but not after an error
// response, such as a proxy's while the service restarts; this module reconnects then. Every connection starts with a
// snapshot, so missed events do not matter.

type Link = "live" | "paused" | "connecting"

type QueueUpdate = Pick<Queue, "name" | "counts">

export interface Warning {
  readonly code: string
  readonly message: string
  /** The name of a queue or the id of a pod. */
  readonly subject?: string
}

interface LiveUpdates {
  readonly link: Link
  /** Whether the service is unreachable, so that all shown data is stale and no action can run. */
  readonly offline: boolean
  /** When the service last responded, in epoch milliseconds. */
  readonly respondedAt: number
  /** Incremented once for the events of a poll, so that dependent resources reload. */
  readonly pulse: number
  readonly queues: ReadonlyArray<QueueUpdate> | undefined
  /** The live pods; undefined until the first event. */
  readonly pods: ReadonlyArray<Pod> | undefined
  /** Current warnings; undefined until the first event. */
  readonly warnings: ReadonlyArray<Warning> | undefined
}

let updates: LiveUpdates = {
  link: "connecting",
  offline: false,
  respondedAt: Date.now(),
  pulse: 0,
  queues: undefined,
  pods: undefined,
  warnings: undefined
}
const listeners = new Set<() => void>()
let source: EventSource | undefined
let reconnectTimer: number | undefined
/** Reconnect delay in milliseconds. */
const reconnectDelay = 3_000
/** Milliseconds until a broken event stream counts as disconnected: a proxy may cut a stream that reconnects at once. */
const grace = 2_000
let graceTimer: number | undefined

const update = (change: Partial<LiveUpdates>) => {
  updates = { ...updates, ...change }
  for (const listener of listeners) listener()
}

/** The service responded. */
const reached = () => {
  clearTimeout(graceTimer)
  graceTimer = undefined
}

const broken = () => {
  update({ link: "connecting" })
  graceTimer ??= window.setTimeout(() => updates.link === "connecting" && update({ offline: true }), grace)
}

// A failed request detects an outage before the silent stream does. While the stream is paused, only requests do.
whenReached((isReached) => {
  if (isReached) {
    if (updates.offline && updates.link === "paused") update({ offline: false, respondedAt: Date.now() })
    return
  }
  if (updates.link === "live") {
    connect()
    broken()
  }
  if (!updates.offline) update({ offline: true })
})

interface EventData {
  /** All queues in a snapshot (`queues`), only the changed ones otherwise (`changed`). */
  readonly queues?: ReadonlyArray<QueueUpdate>
  readonly changed?: ReadonlyArray<QueueUpdate>
  readonly pods?: ReadonlyArray<Pod>
  readonly warnings?: ReadonlyArray<Warning>
}

const parsed = (event: MessageEvent<string>): EventData => {
  try {
    return JSON.parse(event.data)
  } catch {
    return {}
  }
}

/** Milliseconds. The events of one poll arrive together and cause one reload. */
const reloadDelay = 50
let isReloadPlanned = false
let missedPulse = false

/** Lets the page reload its data: soon, or when a hidden tab is shown again. */
const requestReload = () => {
  if (document.visibilityState !== "visible") {
    missedPulse = true
    return
  }
  missedPulse = false
  if (isReloadPlanned) return
  isReloadPlanned = true
  setTimeout(() => {
    isReloadPlanned = false
    update({ pulse: updates.pulse + 1 })
  }, reloadDelay)
}
document.addEventListener("visibilitychange", () => missedPulse && requestReload())

const receive = (event: MessageEvent<string>) => {
  const { changed, pods, queues = changed, warnings } = parsed(event)
  reached()
  if (pods !== undefined) rememberPods(pods)
  update({
    link: "live",
    offline: false,
    respondedAt: Date.now(),
    ...(queues === undefined ? {} : { queues: merged(updates.queues ?? [], queues) }),
    ...(pods === undefined ? {} : { pods }),
    ...(warnings === undefined ? {} : { warnings })
  })
  requestReload()
}

const merged = (known: ReadonlyArray<QueueUpdate>, fresh: ReadonlyArray<QueueUpdate>) => {
  const byName = new Map(known.map((queue) => [queue.name, queue]))
  for (const queue of fresh) byName.set(queue.name, queue)
  return [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}

/**
 * Checks the session before reconnecting, so that an expired login leads to the login page instead of endless retries.
 */
const retry = (failed: EventSource): void => {
  const unless = (next: () => void) => () => source === failed && next()
  reconnectTimer = window.setTimeout(
    () =>
      get("session").then(
        unless(connect),
        unless(() => retry(failed))
      ),
    reconnectDelay
  )
}

export const connect = (): void => {
  disconnect()
  const opened = new EventSource(address("events?jobs=none"), { withCredentials: true })
  source = opened
  source.onopen = () => {
    reached()
    update({ link: "live", offline: false, respondedAt: Date.now() })
  }
  source.onerror = () => {
    broken()
    if (opened.readyState === EventSource.CLOSED) retry(opened)
  }
  for (const kind of ["snapshot", "queues", "pods", "jobs", "warnings"])
    source.addEventListener(kind, (event) => receive(event as MessageEvent<string>))
}

export const disconnect = (): void => {
  clearTimeout(reconnectTimer)
  source?.close()
  source = undefined
}

export const pause = (still: boolean): void => {
  if (still) {
    disconnect()
    update({ link: "paused" })
  } else connect()
}

export const useLiveUpdates = (): LiveUpdates => {
  const [current, setCurrent] = useState(updates)
  useEffect(() => {
    const listen = () => setCurrent(updates)
    listeners.add(listen)
    listen()
    return () => void listeners.delete(listen)
  }, [])
  return current
}
