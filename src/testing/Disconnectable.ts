import { Context, Effect, Layer, Option } from "effect"
import { Leadership } from "../cluster/Leadership.js"
import { Pods } from "../cluster/Pods.js"
import type { PodId } from "../core/Ids.js"
import { MinuteBuckets } from "../history/MinuteBuckets.js"
import { Events } from "../queue/events/Events.js"
import { JobLogs } from "../queue/logs/JobLogs.js"
import { Queue, type Submit } from "../queue/Queue.js"
import { Workflows } from "../queue/workflow/Workflows.js"
import { Schedules } from "../schedule/Schedules.js"

/**
 * Wraps a pod's services so that the pod can be disconnected: after that, its calls have no effect and return empty
 * results.
 */
export const make = (
  context: Context.Context<Queue | Events | JobLogs | Workflows | Pods | Leadership | Schedules | MinuteBuckets>
): {
  readonly layer: Layer.Layer<Queue | Events | JobLogs | Workflows | Pods | Leadership | Schedules | MinuteBuckets>
  /** Disconnects the pod. Its row stays until other pods notice. */
  readonly cut: () => void
  /**
   * Disconnects the pod, removes its pod row and releases its leadership. Its jobs stay running until they are
   * recovered.
   */
  readonly disconnect: (pod: PodId) => Effect.Effect<void>
} => {
  const queue = Context.get(context, Queue)
  const logs = Context.get(context, JobLogs)
  const workflows = Context.get(context, Workflows)
  const events = Context.get(context, Events)
  const { streams } = workflows
  const pods = Context.get(context, Pods)
  const leadership = Context.get(context, Leadership)
  const schedules = Context.get(context, Schedules)
  const buckets = Context.get(context, MinuteBuckets)
  let disconnected = false
  // Callers run a call at once, so it is decided when it is made.
  const unless = <A, E>(silence: A, effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    disconnected ? Effect.succeed(silence) : effect
  const unlessLater = <A, E>(silence: A, effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.suspend(() => unless(silence, effect))

  // The run of a killed pod never gets the result of its call, and can be interrupted while it waits for it.
  const lost = Effect.interruptible(Effect.never)
  const held =
    <Given extends ReadonlyArray<unknown>, A, E>(call: (...given: Given) => Effect.Effect<A, E>) =>
    (...given: Given): Effect.Effect<A, E> =>
      Effect.suspend(() => (disconnected ? lost : call(...given)))

  const removePod = (pod: PodId) =>
    Effect.gen(function* () {
      yield* pods.leave(pod)
      const leader = yield* leadership.leader
      if (Option.isSome(leader) && leader.value.pod === pod) yield* leadership.resign(pod, leader.value.term)
    })

  const cut = () => {
    disconnected = true
  }

  return {
    cut,
    disconnect: (pod) =>
      Effect.suspend(() => {
        cut()
        return Effect.orDie(removePod(pod))
      }),
    layer: Layer.mergeAll(
      Layer.succeed(JobLogs, { ...logs, write: (written) => unless(undefined, logs.write(written)) }),
      Layer.succeed(Queue, {
        enqueue: (jobs) => (disconnected ? lost : queue.enqueue(jobs)),
        enqueueInside: (run, jobs) => (disconnected ? lost : queue.enqueueInside(run, jobs)),
        submitter: Effect.map(
          queue.submitter,
          (submit): Submit =>
            (job, answer) => {
              if (!disconnected) submit(job, answer)
            }
        ),
        claim: (request) => unless([], queue.claim(request)),
        finalize: (ends, whenLocked) => unless([], queue.finalize(ends, whenLocked)),
        heartbeat: (held) => unless({ lost: [], cancelRequested: [] }, queue.heartbeat(held)),
        attempts: (pod, held) =>
          unless(
            held.map(() => undefined),
            queue.attempts(pod, held)
          ),
        progress: (job, progress) => unless(true, queue.progress(job, progress)),
        nextDue: (queues) => unless(new Map(), queue.nextDue(queues)),
        pendingQueues: unlessLater([], queue.pendingQueues),
        recoverStuck: (stuckFor) => unless({ rescued: 0, poisoned: 0, cancelled: 0 }, queue.recoverStuck(stuckFor)),
        recoverAbandoned: (quietFor) =>
          unless({ rescued: 0, poisoned: 0, cancelled: 0 }, queue.recoverAbandoned(quietFor)),
        recoverOrphaned: (pods) =>
          unless({ rescued: 0, poisoned: 0, cancelled: 0, left: [] }, queue.recoverOrphaned(pods)),
        makeFollowUps: (kinds, compute) => unless({ made: 0, failed: [] }, queue.makeFollowUps(kinds, compute)),
        purge: (doneRetention, fence) => unless({ done: 0, dead: 0 }, queue.purge(doneRetention, fence))
      }),
      Layer.succeed(Workflows, {
        ...workflows,
        load: held(workflows.load),
        record: held(workflows.record),
        startChildren: held(workflows.startChildren),
        tagHeld: held(workflows.tagHeld),
        answer: held(workflows.answer),
        endRace: held(workflows.endRace),
        heartbeat: held(workflows.heartbeat),
        takePermit: held(workflows.takePermit),
        returnPermit: held(workflows.returnPermit),
        pin: held(workflows.pin),
        streams: { ...streams, begin: held(streams.begin), append: held(streams.append) }
      }),
      Layer.succeed(Events, { ...events, publish: held(events.publish), wait: held(events.wait) }),
      Layer.succeed(Pods, {
        beat: (facts, state, liveWithin, deadAfter) =>
          unless(
            { shares: new Map(), servingPods: new Map(), otherReleases: new Map(), silent: [] },
            pods.beat(facts, state, liveWithin, deadAfter)
          ),
        beatRemote: (workers, liveWithin) => unless(new Map(), pods.beatRemote(workers, liveWithin)),
        holdLock: pods.holdLock,
        removeUnlocked: (by) => unless([], pods.removeUnlocked(by)),
        present: (within) => unless([], pods.present(within)),
        live: (within) => unless([], pods.live(within)),
        leave: (id) => unless(undefined, pods.leave(id)),
        removeDead: (silentFor) => unless([], pods.removeDead(silentFor))
      }),
      Layer.succeed(Leadership, {
        campaign: (pod, lease) => unless(Option.none(), leadership.campaign(pod, lease)),
        resign: (pod, term) => unless(undefined, leadership.resign(pod, term)),
        assertTerm: (term) => leadership.assertTerm(term),
        leader: leadership.leader
      }),
      // All background work on schedules starts with one of these calls.
      Layer.succeed(Schedules, {
        ...schedules,
        declare: (definitions) => unless([], schedules.declare(definitions)),
        due: (limit, after) => unless([], schedules.due(limit, after)),
        nextInstant: unlessLater(Option.none(), schedules.nextInstant),
        advance: (read, nextFireAt) => unless(Option.none(), schedules.advance(read, nextFireAt))
      }),
      Layer.succeed(MinuteBuckets, {
        ...buckets,
        record: (pod, revision, counts) => unless(undefined, buckets.record(pod, revision, counts))
      })
    )
  }
}
