import { Context, Duration, Effect, Option } from "effect"
import { Pods } from "../../src/cluster/Pods.js"
import type { JobId, Lease, PodId } from "../../src/core/Ids.js"
import { digestOf } from "../../src/database/SubjectText.js"
import { MinuteBuckets } from "../../src/history/MinuteBuckets.js"
import { JobAdmin } from "../../src/queue/JobAdmin.js"
import { JobsMemory } from "../../src/queue/JobsMemory.js"
import { type ClaimedJob, enqueued, Queue } from "../../src/queue/Queue.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { Schedules } from "../../src/schedule/Schedules.js"
import { Storage } from "../../src/uploads/Storage.js"

import {
  early,
  erasureWith,
  eventsWith,
  queueWith,
  settingsWith,
  type Tamper,
  withEnd,
  workflowsWith
} from "./Tamper.js"

// Databases with one bug each. Each breaks one guarantee; a simulation that misses it is useless.

/** Bugs by description: the guarantee that breaks, and a seed from which the simulation soon finds it. */
export const mistakes: Readonly<
  Record<string, { readonly breaks: string; readonly tamper: Tamper; readonly seed?: number }>
> = {
  "an end is written without checking the lease": {
    seed: 190,
    breaks: "one lease",
    tamper: queueWith((queue, tables) => {
      const leases = new Map<JobId, Lease>()
      Context.get(tables, JobsMemory).watch((_, after) => {
        if (after?.run !== undefined) leases.set(after.id, after.run.lease)
      })
      return {
        finalize: (ends) =>
          Effect.suspend(() =>
            queue.finalize(ends.map((end) => withEnd(end, { lease: leases.get(end.id) ?? end.lease })))
          )
      }
    })
  },
  "a claim returns jobs that another pod has just claimed": {
    breaks: "claimed before run",
    tamper: queueWith((queue) => {
      let last: ReadonlyArray<ClaimedJob> = []
      return {
        claim: (request) =>
          Effect.map(queue.claim(request), (jobs) => {
            const again = jobs.length === 0 ? last : []
            last = jobs
            return [...jobs, ...again.filter((job) => job.queue === request.queue)].slice(0, request.limit)
          })
      }
    })
  },
  "an enqueue is acknowledged and not always stored": {
    breaks: "kept",
    tamper: queueWith((queue) => ({
      enqueue: (jobs) => {
        const id = jobs[0]?.id
        return id !== undefined && jobs[0]?.priority !== 0 ? Effect.succeed([enqueued(id)]) : queue.enqueue(jobs)
      }
    }))
  },
  "an enqueue drops its dedupe key": {
    breaks: "dedupe",
    tamper: queueWith((queue) => ({
      enqueue: (jobs) => queue.enqueue(jobs.map((job) => ({ ...job, dedupe: undefined })))
    }))
  },
  "a repeated event is stored again": {
    breaks: "event",
    tamper: eventsWith((events) => ({
      publish: (given) => events.publish(given.map((event) => ({ ...event, id: undefined })))
    }))
  },
  "an event makes no job for one of its subscribers": {
    breaks: "event",
    tamper: eventsWith((events) => ({ subscribe: (kinds, given) => events.subscribe(kinds, given.slice(1)) }))
  },
  "an erasure says that it is done before it is": {
    seed: 18,
    breaks: "erased",
    tamper: erasureWith(() => ({ erase: () => Effect.succeed(0), unfinished: () => Effect.succeed([]) }))
  },
  "an erasure takes jobs of another subject along": {
    seed: 50,
    breaks: "erasure",
    tamper: erasureWith((erasure) => ({
      erase: (subject, act) =>
        Effect.zipRight(
          Effect.forEach(["person 1", "person 2"], (other) => erasure.erase(digestOf(other), act)),
          erasure.erase(subject, act)
        )
    }))
  },
  "a pause is acknowledged and not stored": {
    seed: 7,
    breaks: "pause",
    tamper: settingsWith((patch) => ({ ...patch, paused: undefined }))
  },
  "keys are not limited": { breaks: "key limit", tamper: settingsWith((patch) => ({ ...patch, perKey: undefined })) },
  "keys have no order": {
    breaks: "key order",
    tamper: settingsWith((patch) =>
      patch.perKey == null ? patch : { ...patch, perKey: { ...patch.perKey, order: "none" } }
    )
  },
  "a rate is not enforced": {
    seed: 16,
    breaks: "rate limit",
    tamper: settingsWith((patch) => ({ ...patch, rate: undefined }))
  },
  "a claim takes jobs that are not due": {
    breaks: "not early",
    tamper: queueWith((queue) => ({ claim: (request) => early(queue.claim(request)) }))
  },
  "failed attempts are not counted": {
    seed: 3,
    breaks: "attempts",
    tamper: queueWith((queue) => ({
      finalize: (ends) =>
        queue.finalize(
          ends.map((end) => (end.end._tag === "Again" ? withEnd(end, { end: { ...end.end, counted: false } }) : end))
        )
    }))
  },
  "the history is not written": {
    breaks: "history",
    tamper: queueWith((queue) => ({
      finalize: (ends) =>
        queue.finalize(
          ends.map((end) =>
            end.end._tag === "Again" ? withEnd(end, { end: { ...end.end, remember: undefined } }) : end
          )
        )
    }))
  },
  "jobs of dead pods are not recovered": {
    breaks: "drains",
    tamper: queueWith(() => ({ recoverStuck: () => Effect.succeed({ rescued: 0, poisoned: 0, cancelled: 0 }) }))
  },
  "a cancel is acknowledged and not stored": {
    seed: 7,
    breaks: "cancel",
    tamper: (tables) => {
      const search = Context.get(tables, JobSearch)
      return Context.add(tables, JobAdmin, { ...Context.get(tables, JobAdmin), cancel: (id) => search.get(id) })
    }
  },
  "a schedule that fired does not advance": {
    breaks: "schedule",
    tamper: (tables) => {
      const queue = Context.get(tables, Queue)
      return tables.pipe(
        Context.add(Schedules, {
          ...Context.get(tables, Schedules),
          advance: (read) => Effect.succeed(Option.some({ ...read, nextFireAt: read.nextFireAt ?? 0 }))
        }),
        Context.add(Queue, {
          ...queue,
          enqueue: (jobs) => queue.enqueue(jobs.map((job) => ({ ...job, dedupe: undefined })))
        })
      )
    }
  },
  "counts are written twice": {
    breaks: "counters",
    tamper: (tables) => {
      const buckets = Context.get(tables, MinuteBuckets)
      return Context.add(tables, MinuteBuckets, {
        ...buckets,
        record: (pod, revision, counts) =>
          buckets.record(
            pod,
            revision,
            counts.map((count) => ({ ...count, started: 2 * count.started }))
          )
      })
    }
  },
  "an acknowledged file stays in the inbox": {
    breaks: "uploads",
    tamper: (tables) => Context.add(tables, Storage, { ...Context.get(tables, Storage), ack: () => Effect.void })
  },
  "a redelivered webhook is stored again": {
    breaks: "webhook",
    tamper: queueWith((queue) => ({
      enqueue: (jobs) =>
        queue.enqueue(jobs.map((job) => (job.kind === "webhook" ? { ...job, dedupe: undefined } : job)))
    }))
  },
  "a job stored for a free slot has no lease": {
    breaks: "claimed before run",
    tamper: (tables) => {
      const jobs = Context.get(tables, JobsMemory)
      const queue = Context.get(tables, Queue)
      return Context.add(tables, JobsMemory, {
        ...jobs,
        insertClaimed: (stored) => {
          const again = stored.map(({ id, kind, attempts, payload, queue: name, version }) => ({
            id,
            kind,
            attempts,
            payload: JSON.parse(payload) as unknown,
            queue: name,
            version
          }))
          return Effect.as(Effect.orDie(queue.enqueue(again)), true)
        }
      })
    }
  },
  "the late end of a remote worker ends the attempt of another": {
    seed: 19,
    breaks: "remote end",
    tamper: queueWith((queue, tables) => {
      const running = new Map<JobId, { readonly pod: PodId; readonly lease: Lease }>()
      Context.get(tables, JobsMemory).watch((_, after) => {
        if (after?.run !== undefined) running.set(after.id, after.run)
      })
      return {
        attempts: (pod, held) =>
          Effect.map(
            Effect.forEach(held, (job) => {
              const run = running.get(job.id) ?? { ...job, pod }
              return queue.attempts(run.pod, [{ id: job.id, lease: run.lease }])
            }),
            (each) => each.flat()
          )
      }
    })
  },
  "a pushed job is done although its endpoint did not accept it": {
    seed: 10,
    breaks: "push",
    tamper: queueWith((queue, tables) => {
      const kinds = new Map<JobId, string>()
      Context.get(tables, JobsMemory).watch((_, after) => {
        if (after !== undefined) kinds.set(after.id, after.kind)
      })
      return {
        finalize: (ends) =>
          queue.finalize(
            ends.map((end) =>
              kinds.get(end.id) === "pushed" ? withEnd(end, { end: { _tag: "Done", result: undefined } }) : end
            )
          )
      }
    })
  },
  "a signal is stored with another value": {
    seed: 6,
    breaks: "messages",
    tamper: workflowsWith((workflows) => ({ signal: (given) => workflows.signal({ ...given, value: 0 }) }))
  },
  "an answer is stored with another value": {
    seed: 3,
    breaks: "asks",
    tamper: workflowsWith((workflows) => ({ answer: (run, row) => workflows.answer(run, row, { value: 9 }) }))
  },
  "a value that an execution sets is acknowledged and not stored": {
    seed: 3,
    breaks: "values",
    tamper: workflowsWith((workflows) => ({
      record: (run, step) =>
        step.name === "set:stage#3"
          ? Effect.succeed({ outcome: step.outcome, exit: step.exit, repeated: false })
          : workflows.record(run, step)
    }))
  },
  "a tag is acknowledged and not stored": {
    seed: 3,
    breaks: "tags",
    tamper: workflowsWith(() => ({ tagHeld: (_, tags) => Effect.succeed(tags as Record<string, string>) }))
  },
  "the children that lost a race are not cancelled": {
    seed: 3,
    breaks: "cancel",
    tamper: workflowsWith((workflows) => ({
      endRace: (execution, name, winner) => workflows.endRace(execution, name, winner, false)
    }))
  },
  "a race ends with a child that has not ended": {
    seed: 11,
    breaks: "race",
    tamper: workflowsWith((workflows) => ({
      children: (execution, name) =>
        Effect.map(workflows.children(execution, name), (all) =>
          all.map((each) =>
            each.position === 1 && each.job !== undefined
              ? { ...each, job: { ...each.job, state: "done" as const, finishedAt: 0 } }
              : each
          )
        )
    }))
  },
  "a claim does not say to which release an execution is pinned": {
    seed: 49,
    breaks: "pin",
    tamper: queueWith((queue) => ({
      claim: (request) =>
        Effect.map(queue.claim(request), (jobs) =>
          jobs.map((job) =>
            job.execution === undefined ? job : { ...job, execution: { ...job.execution, pinned: undefined } }
          )
        )
    }))
  },
  "permits of steps are given to all": {
    seed: 6,
    breaks: "step limit",
    tamper: workflowsWith((workflows) => ({
      takePermit: (run, permit) => workflows.takePermit(run, { ...permit, most: 9 })
    }))
  },
  "a stream loses a chunk": {
    seed: 6,
    breaks: "streams",
    tamper: workflowsWith(({ streams }) => {
      const read: typeof streams.read = (position) =>
        Effect.map(streams.read(position), (page) => ({ ...page, chunks: page.chunks.slice(1) }))
      return { streams: { ...streams, read } }
    })
  },
  "a pod that stops stays listed": {
    breaks: "shutdown",
    tamper: (tables) => Context.add(tables, Pods, { ...Context.get(tables, Pods), leave: () => Effect.void })
  },
  "a silent process is declared dead although it holds its lock": {
    seed: 60,
    breaks: "declared dead",
    tamper: (tables) => {
      const pods = Context.get(tables, Pods)
      const silentFor = Duration.seconds(6)
      const removeUnlocked = () =>
        Effect.map(pods.removeDead(silentFor), (dead) => dead.map((id) => ({ id, silentFor })))
      return Context.add(tables, Pods, { ...pods, removeUnlocked })
    }
  }
}
