import { useState } from "preact/hooks"
import { serviceTime } from "./Api"
import { useLiveUpdates } from "./Live"
import { useTick } from "./parts/Time"
import { type Resource, useResource } from "./Resource"
import type { Queue } from "./Views"

export interface QueueList {
  readonly queues: ReadonlyArray<Queue>
  readonly countedAt: string
  readonly measuredAt: string | null
}

/** The queue with the age of its oldest due job now. */
const aged = (queue: Queue, now: number): Queue =>
  queue.oldestDueAt === null
    ? queue
    : { ...queue, oldestDueAgeSeconds: Math.max(0, (now - Date.parse(queue.oldestDueAt)) / 1000) }

/** All queues. The event stream keeps them current; without it they are polled. */
export const useQueues = (): Resource<QueueList> => {
  const { changedAt, countedAt, link, measuredAt, queues, trouble } = useLiveUpdates()
  const [isAsked, setAsked] = useState(false)
  useTick()
  const isLive = link === "live" && trouble === undefined && queues !== undefined
  const polled = useResource<QueueList>(isLive && !isAsked ? undefined : "queues", isLive ? {} : { every: 10_000 })
  const streamed = queues === undefined || countedAt === undefined ? undefined : { queues, countedAt, measuredAt }
  const newest = streamed === undefined || polled.at > changedAt ? (polled.data ?? streamed) : streamed
  const now = serviceTime()
  return {
    ...polled,
    data: newest === undefined ? undefined : { ...newest, queues: newest.queues.map((queue) => aged(queue, now)) },
    reload: () => {
      setAsked(true)
      polled.reload()
    }
  }
}
