import { useEffect, useState } from "preact/hooks"
import { address, get, noteServiceTime, whenReached } from "./Api"
import { rememberPods } from "./PodNames"
import type { Pod, Queue } from "./Views"
import { whileShown } from "./WhileShown"

// One event stream for the whole page. The browser reconnects after a broken connection, but not after an error
// response, such as a proxy's while the service restarts; this module reconnects then. Every connection starts with a
// snapshot, so missed events do not matter.

type Link = "live" | "paused" | "connecting"

/** Why the page is stale: no connection, a connection without any event, or a service without its database. */
export type Trouble = "disconnected" | "silent" | "database"

export interface Warning {
  readonly code: string
  readonly message: string
  /** The name of a queue or the id of a pod. */
  readonly subject?: string
}

export const troubleWords: Readonly<Record<Trouble, string>> = {
  disconnected: "Disconnected",
  silent: "No answer",
  database: "Database down"
}

interface LiveUpdates {
  readonly link: Link
  /** Why all shown data is stale and no action can run, if so. */
  readonly trouble: Trouble | undefined
  /** When the trouble began: the last event before it, in epoch milliseconds. */
  readonly staleSince: number
  /** Incremented once for the events of a poll, so that dependent resources reload. */
  readonly pulse: number
  /** When the last change of anything arrived, in epoch milliseconds. */
  readonly changedAt: number
  /** All queues; undefined until the first event. */
  readonly queues: ReadonlyArray<Queue> | undefined
  /** When their jobs were counted and their throughput was measured. */
  readonly countedAt: string | undefined
  readonly measuredAt: string | null
  /** The live pods; undefined until the first event. */
  readonly pods: ReadonlyArray<Pod> | undefined
  /** Current warnings; undefined until the first event. */
  readonly warnings: ReadonlyArray<Warning> | undefined
}

let updates: LiveUpdates = {
  link: "connecting",
  trouble: undefined,
  staleSince: Date.now(),
  pulse: 0,
  changedAt: 0,
  queues: undefined,
  countedAt: undefined,
  measuredAt: null,
  pods: undefined,
  warnings: undefined
}
const listeners = new Set<() => void>()
let source: EventSource | undefined
/** Whether there is to be a stream while the tab is shown. */
let isWanted = false
let isHidden = false
let reconnectTimer: number | undefined
/** Reconnect delay in milliseconds. */
const reconnectDelay = 3_000
/** Milliseconds until a broken event stream counts as disconnected: a proxy may cut a stream that reconnects at once. */
const grace = 2_000
let graceTimer: number | undefined

/** Heartbeats come every five seconds. Without one for this many milliseconds, the service counts as silent. */
const silence = 12_000
/** Milliseconds until a silent stream is replaced: its connection may be lost without an error. */
const reconnectAfter = 30_000
let heardAt = Date.now()
let connectedAt = Date.now()

const update = (change: Partial<LiveUpdates>) => {
  updates = { ...updates, ...change }
  for (const listener of listeners) listener()
}

/** Milliseconds after which an event would have come: the service looks at paused queues every two seconds. */
const turnedFor = 5_000
/** What events have said of queues that are shown as this page has turned them. */
const unturned = new WeakMap<Queue, Queue>()

const replaceQueue = (shown: Queue, by: Queue) => {
  if (updates.queues?.includes(shown) === true)
    update({ changedAt: Date.now(), queues: updates.queues.map((queue) => (queue === shown ? by : queue)) })
}

/**
 * Shows at once that this page paused or resumed a queue, until the next event about it. If none comes, the queue was turned back
 * before the service looked at it.
 */
export const turned = (name: string, paused: boolean): void => {
  const before = updates.queues?.find((queue) => queue.name === name)
  // Without events, the queues are polled.
  if (before === undefined || updates.link !== "live") return
  const known = unturned.get(before) ?? before
  const shown = { ...before, paused }
  unturned.set(shown, known)
  replaceQueue(before, shown)
  setTimeout(() => updates.link === "live" && replaceQueue(shown, known), turnedFor)
}

/** The service responded. */
const heard = (trouble: Trouble | undefined) => {
  clearTimeout(graceTimer)
  graceTimer = undefined
  heardAt = Date.now()
  if (updates.trouble !== trouble || updates.link !== "live") update({ link: "live", trouble })
}

/** Only a heartbeat says whether the database responds. */
const reached = () => heard(updates.trouble === "database" ? "database" : undefined)

const fail = (trouble: Trouble) => {
  if (updates.trouble !== trouble) update({ trouble, staleSince: heardAt })
}

const broken = () => {
  update({ link: "connecting" })
  graceTimer ??= window.setTimeout(
    () => updates.link === "connecting" && fail(updates.trouble ?? "disconnected"),
    grace
  )
}

// A failed request detects an outage before the silent stream does. While the stream is not open, only requests tell
// whether the service and its database respond.
whenReached((reach) => {
  if (updates.link === "live") {
    if (reach !== "nothing") return
    connect()
    broken()
    fail("disconnected")
  } else if (reach === "nothing") fail("disconnected")
  else if (reach === "no database") fail("database")
  else if (updates.link === "paused" && updates.trouble !== undefined) {
    heardAt = Date.now()
    update({ trouble: undefined })
  }
})

/** A tab that was asleep has events waiting, which count before its silence does. */
let lastCheck = Date.now()
setInterval(() => {
  const now = Date.now()
  const wasAsleep = now - lastCheck > grace
  lastCheck = now
  if (wasAsleep || source === undefined || now - Math.max(heardAt, connectedAt) < silence) return
  if (updates.trouble === undefined) fail("silent")
  if (now - connectedAt >= reconnectAfter) connect()
}, 1_000)

interface EventData {
  /** All queues in a snapshot (`queues`), only the changed ones and names of deleted ones otherwise. */
  readonly queues?: ReadonlyArray<Queue>
  readonly changed?: ReadonlyArray<Queue>
  readonly gone?: ReadonlyArray<string>
  readonly countedAt?: string
  readonly measuredAt?: string | null
  readonly pods?: ReadonlyArray<Pod>
  readonly warnings?: ReadonlyArray<Warning>
  /** Of a heartbeat: the time of the service, and the state of its database. */
  readonly at?: string
  readonly database?: "up" | "down"
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
  const { changed, countedAt, gone = [], measuredAt = null, pods, queues, warnings } = parsed(event)
  reached()
  if (pods !== undefined) rememberPods(pods)
  update({
    changedAt: Date.now(),
    ...(queues === undefined ? {} : { queues }),
    ...(changed === undefined ? {} : { queues: merged(updates.queues ?? [], changed, gone) }),
    ...(countedAt === undefined ? {} : { countedAt, measuredAt }),
    ...(pods === undefined ? {} : { pods }),
    ...(warnings === undefined ? {} : { warnings })
  })
  requestReload()
}

const receiveHeartbeat = (event: MessageEvent<string>) => {
  const { at, countedAt, database, measuredAt = null } = parsed(event)
  const hadTrouble = updates.trouble !== undefined
  if (at !== undefined) noteServiceTime(Date.parse(at))
  if (database === "down") {
    fail("database")
    heardAt = Date.now()
  } else {
    heard(undefined)
    if (countedAt !== updates.countedAt) update({ countedAt, measuredAt })
    if (hadTrouble) requestReload()
  }
  // The title of the tab has what it shows: the service sends a heartbeat right after the snapshot.
  if (isHidden) leave()
}

const merged = (known: ReadonlyArray<Queue>, fresh: ReadonlyArray<Queue>, gone: ReadonlyArray<string>) => {
  const byName = new Map(known.map((queue) => [queue.name, queue]))
  for (const queue of fresh) byName.set(queue.name, queue)
  for (const name of gone) byName.delete(name)
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

const open = (): void => {
  close()
  const opened = new EventSource(address("events?jobs=none"), { withCredentials: true })
  source = opened
  connectedAt = Date.now()
  source.onopen = () => reached()
  source.onerror = () => {
    broken()
    if (opened.readyState === EventSource.CLOSED) retry(opened)
  }
  for (const kind of ["snapshot", "queues", "pods", "jobs", "warnings"])
    source.addEventListener(kind, (event) => receive(event as MessageEvent<string>))
  source.addEventListener("heartbeat", (event) => receiveHeartbeat(event as MessageEvent<string>))
}

const close = (): void => {
  clearTimeout(reconnectTimer)
  source?.close()
  source = undefined
}

export const connect = (): void => {
  // Data that was loaded without a stream counts as current until here.
  if (!isWanted) heardAt = Date.now()
  isWanted = true
  if (!isHidden) open()
}

export const disconnect = (): void => {
  isWanted = false
  close()
}

/** Closes the stream. The title of the tab keeps the trouble until the next look. */
const leave = (): void => {
  close()
  clearTimeout(graceTimer)
  graceTimer = undefined
  update({ link: "connecting" })
}

whileShown(
  () => {
    isHidden = false
    if (isWanted) open()
  },
  () => {
    isHidden = true
    if (isWanted) leave()
  },
  // For the title of the tab.
  () => isWanted && open()
)

export const pause = (still: boolean): void => {
  if (still) {
    disconnect()
    update({ link: "paused" })
  } else connect()
}

/** Milliseconds after an event in which measurements of it may still be written. */
export const aftermath = 10_000

/** Whether nothing can have changed since this time, in epoch milliseconds: every change arrives as an event. */
export const isUnchangedSince = (at: number): boolean =>
  updates.link === "live" &&
  updates.trouble === undefined &&
  updates.changedAt > 0 &&
  updates.changedAt + aftermath < at

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
