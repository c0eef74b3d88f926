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

/** Milliseconds. Older ages change every ten seconds: a hundred texts that change every second cost a busy processor. */
const young = 60_000
const slowTick = 10_000

const ageOf = ({ oldestDueAt }: Queue, now: number) => Math.max(0, now - Date.parse(oldestDueAt ?? ""))

/** The queue with the age of its oldest due job now. */
const aged = (queue: Queue, now: number): Queue => {
  if (queue.oldestDueAt === null) return queue
  const age = ageOf(queue, now)
  const shown = age < young ? age : Math.max(young, ageOf(queue, Math.floor(now / slowTick) * slowTick))
  return { ...queue, oldestDueAgeSeconds: shown / 1000 }
}

/** The names of queues with due jobs that no live process serves. */
export const useUnserved = (): ReadonlySet<string | undefined> => {
  const { warnings = [] } = useLiveUpdates()
  return new Set(warnings.flatMap(({ code, subject }) => (code === "unserved_queue" ? [subject] : [])))
}

/** All queues. The event stream keeps them current; without it they are polled. */
export const useQueues = (): Resource<QueueList> => {
  const { changedAt, countedAt, link, measuredAt, queues, trouble } = useLiveUpdates()
  const [isAsked, setAsked] = useState(false)
  const isLive = link === "live" && trouble === undefined && queues !== undefined
  const polled = useResource<QueueList>(isLive && !isAsked ? undefined : "queues", isLive ? {} : { every: 10_000 })
  const streamed = queues === undefined || countedAt === undefined ? undefined : { queues, countedAt, measuredAt }
  const newest = streamed === undefined || polled.at > changedAt ? (polled.data ?? streamed) : streamed
  const now = serviceTime()
  useTick(true, newest?.queues.some((queue) => ageOf(queue, now) < young) === true ? 1_000 : slowTick)
  return {
    ...polled,
    data: newest === undefined ? undefined : { ...newest, queues: newest.queues.map((queue) => aged(queue, now)) },
    reload: () => {
      setAsked(true)
      polled.reload()
    }
  }
}
