import { Effect, Either } from "effect"
import { after, type Soon } from "../codec/DataKeys.js"
import { canonicalJson } from "../core/CanonicalJson.js"
import type { InvalidJob } from "../core/InvalidJob.js"
import type { FollowUp } from "../core/StoredJob.js"
import type { DatabaseUnavailable } from "../database/DatabaseError.js"
import type { AttemptEnd, End } from "../queue/AttemptEnd.js"
import type { DirectHandoff, HandoffReceiver } from "../queue/handoff/DirectHandoff.js"
import { JobIdTaken } from "../queue/JobErrors.js"
import type { NewJob } from "../queue/NewJob.js"
import {
  type ClaimedJob,
  type DeadPayload,
  followUpsPerPass,
  type Queue,
  type Submit,
  submitterOf
} from "../queue/Queue.js"
import type { JobSearch } from "../queue/search/JobSearch.js"
import type { Workflows } from "../queue/workflow/Workflows.js"
import { sealedFollowUp, sealedJobs, sealedNow } from "./SealedJobs.js"
import { all, lifted, type Sealer, sealing } from "./Sealer.js"

/**
 * Stores jobs whose values are sealed. A job with an id of the caller may exist with the same content, which the store cannot
 * see: it is then stored again with the values that it has.
 */
export const storing =
  (sealer: Sealer, search: typeof JobSearch.Service | undefined) =>
  <A, E>(jobs: ReadonlyArray<NewJob>, store: (jobs: ReadonlyArray<NewJob>) => Effect.Effect<A, E>) => {
    const again = (sealed: ReadonlyArray<NewJob>, error: E): Effect.Effect<A, E> => {
      if (!(error instanceof JobIdTaken) || search === undefined) return Effect.fail(error)
      const { index, id } = error
      const given = jobs[index]
      if (given?.id !== id || sealed[index]?.payload === undefined) return Effect.fail(error)
      return Effect.gen(function* () {
        const found = yield* Effect.mapError(search.get(id), () => error)
        const { fault, value } = yield* lifted(() => sealer.attempt(found.payload))
        const isSame = fault === undefined && canonicalJson(value) === canonicalJson(given.payload)
        if (!isSame || sealed[index]?.payload === found.payload) return yield* Effect.fail(error)
        const next = sealed.map((job, place) => (place === index ? { ...job, payload: found.payload } : job))
        return yield* attempt(next)
      })
    }
    let left = jobs.length
    const attempt = (sealed: ReadonlyArray<NewJob>): Effect.Effect<A, E> =>
      Effect.catchAll(store(sealed), (error) => (left-- > 0 ? again(sealed, error) : Effect.fail(error)))
    return Effect.flatMap(
      sealedJobs(sealer, jobs),
      (sealed): Effect.Effect<A, E | InvalidJob | DatabaseUnavailable> => attempt(sealed)
    )
  }

const sealedEnd = (sealer: Sealer, end: End): Soon<End> => {
  switch (end._tag) {
    case "Done":
      return end.result === undefined ? end : after(sealer.sealText(end.result), (result) => ({ ...end, result }))
    case "Dead":
      return end.followUp === undefined
        ? end
        : after(sealedFollowUp(sealer, end.followUp), (followUp) => ({ ...end, followUp }))
    case "Suspended": {
      const { continues } = end
      return continues === undefined
        ? end
        : after(sealer.sealText(continues.payload), (payload) => ({ ...end, continues: { ...continues, payload } }))
    }
    case "Again":
      return end
  }
}

/** Depth of a journal above the values of its steps. */
const journalLevels = 7

/** Opens claimed jobs. The payload of a job that cannot be opened says why. */
const opening = (sealer: Sealer) => {
  const withJournal = (job: ClaimedJob): Soon<ClaimedJob> => {
    const { execution } = job
    if (execution?.journal === undefined) return job
    return after(sealer.attempt(execution.journal, journalLevels), ({ fault, value }) => {
      if (fault !== undefined) return { ...job, payload: fault }
      return value === execution.journal ? job : { ...job, execution: { ...execution, journal: value } }
    })
  }
  return (job: ClaimedJob): Soon<ClaimedJob> =>
    after(sealer.attempt(job.payload), ({ fault, value }) => {
      if (fault !== undefined) return { ...job, payload: fault }
      return withJournal(value === job.payload ? job : { ...job, payload: value })
    })
}

/** The sealed follow-up of a dead job, or why there is none. */
const sealedComputed = (
  sealer: Sealer,
  dead: DeadPayload,
  compute: (dead: DeadPayload) => Either.Either<FollowUp, string>
): Soon<Either.Either<FollowUp, string>> =>
  after(sealer.attempt(dead.payload), ({ fault, value: payload }) => {
    const computed = fault === undefined ? compute({ ...dead, payload }) : Either.left(fault.reason)
    return Either.isLeft(computed) ? computed : after(sealedFollowUp(sealer, computed.right), Either.right)
  })

/** The queue over one that stores sealed values. */
export const queueOver = (
  sealer: Sealer,
  inner: typeof Queue.Service,
  search: typeof JobSearch.Service | undefined,
  workflows: typeof Workflows.Service | undefined
): typeof Queue.Service => {
  const store = storing(sealer, search)
  const open = opening(sealer)
  const openJobs = (jobs: ReadonlyArray<ClaimedJob>) => lifted(() => all(jobs.map(open)))
  /** The lists of ends that were sealed: a list that is passed again must reach the store as the same one. */
  const ends = new WeakMap<ReadonlyArray<AttemptEnd>, ReadonlyArray<AttemptEnd>>()

  const sealedEnds = (given: ReadonlyArray<AttemptEnd>): Soon<ReadonlyArray<AttemptEnd>> => {
    const known = ends.get(given)
    if (known !== undefined) return known
    const each = all(
      given.map((one) =>
        after(sealedEnd(sealer, one.end), (end) => {
          const unanswered = one.unanswered === undefined ? undefined : (ends.get(one.unanswered) ?? one.unanswered)
          return end === one.end && unanswered === one.unanswered ? one : { ...one, end, unanswered }
        })
      )
    )
    return after(each, (made) => {
      ends.set(given, made)
      return made
    })
  }

  /** Sealed follow-ups that had to wait for a key, by the payload that they were computed from. */
  const followUps = new Map<string, FollowUp>()
  const remember = (name: string, followUp: FollowUp): void => {
    const [oldest] = followUps.keys()
    if (followUps.size >= followUpsPerPass && oldest !== undefined) followUps.delete(oldest)
    followUps.set(name, followUp)
  }

  /** Reads a journal that the claim has not: a run must not begin if a key for it is missing. */
  const withJournal = (job: ClaimedJob): Effect.Effect<ClaimedJob> => {
    const { execution } = job
    if (workflows === undefined || execution === undefined || execution.woken === 0 || execution.journal !== undefined)
      return Effect.succeed(job)
    return Effect.match(workflows.load(execution.run), {
      onFailure: () => job,
      onSuccess: (journal) => ({ ...job, execution: { ...execution, journal } })
    })
  }

  const enqueue: typeof inner.enqueue = (jobs) => store(jobs, inner.enqueue)

  return {
    ...inner,
    enqueue,
    enqueueInside: (run, jobs) => store(jobs, (sealed) => inner.enqueueInside(run, sealed)),
    submitter: Effect.gen(function* () {
      const submit = yield* inner.submitter
      const submitAlone = yield* submitterOf(enqueue)
      return ((job, onResult) => {
        const sealed = job.id === undefined ? sealedAtOnce(sealer, job) : undefined
        if (sealed === undefined) submitAlone(job, onResult)
        else submit(sealed, onResult)
      }) satisfies Submit
    }),
    claim: (request) =>
      Effect.flatMap(inner.claim(request), (jobs) =>
        Effect.flatMap(
          jobs.some(({ execution }) => execution !== undefined)
            ? Effect.forEach(jobs, withJournal, { concurrency: "unbounded" })
            : Effect.succeed(jobs),
          openJobs
        )
      ),
    finalize: (given, whenLocked) =>
      Effect.flatMap(
        sealing(() => sealedEnds(given)),
        (sealed) => inner.finalize(sealed, whenLocked)
      ),
    attempts: (pod, held) =>
      Effect.flatMap(inner.attempts(pod, held), (found) =>
        lifted(() =>
          all(
            found.map((each) => (each?._tag === "Running" ? after(open(each.job), (job) => ({ ...each, job })) : each))
          )
        )
      ),
    progress: (job, text) =>
      Effect.flatMap(
        sealing(() => sealer.sealText(text)),
        (sealed) => inner.progress(job, sealed)
      ),
    makeFollowUps: (kinds, compute) =>
      Effect.suspend(() => {
        const used: Array<string> = []
        const made = inner.makeFollowUps(kinds, (dead) => {
          const name = JSON.stringify(dead)
          const known = followUps.get(name)
          if (known !== undefined) {
            used.push(name)
            return Either.right(known)
          }
          const sealed = sealedComputed(sealer, dead, compute)
          if (!(sealed instanceof Promise)) return sealed
          // The store computes in a transaction, so what must wait for a key is for the next pass, when the key may have expired.
          sealed.then(
            Either.map((followUp) => remember(name, followUp)),
            () => {}
          )
          return Either.left("it must wait for a key of sealed values, which is being fetched")
        })
        return Effect.tap(made, () => {
          for (const name of used) followUps.delete(name)
        })
      })
  }
}

/** Seals a job without waiting. Undefined if that is impossible. */
const sealedAtOnce = (sealer: Sealer, job: NewJob): NewJob | undefined => {
  try {
    const sealed = sealedNow(sealer, [job])
    if (Either.isLeft(sealed)) return undefined
    if (!(sealed.right instanceof Promise)) return sealed.right[0]
    sealed.right.catch(() => {})
    return undefined
  } catch {
    return undefined
  }
}

/** Opens jobs that are passed to a worker of this process without a claim. */
export const handoffOver = (sealer: Sealer, inner: typeof DirectHandoff.Service): typeof DirectHandoff.Service => {
  const open = opening(sealer)
  const receiverOver = (receiver: HandoffReceiver): HandoffReceiver => ({
    ...receiver,
    reserve: receiver.reserve,
    release: receiver.release,
    take: (jobs) => {
      const opened = all(jobs.map(open))
      if (!(opened instanceof Promise)) return receiver.take(opened)
      // The worker must answer at once. The jobs return to the queue, and a claim waits for the key.
      opened.catch(() => {})
      receiver.release(jobs.length)
      return false
    }
  })
  return { ...inner, join: (queue, receiver) => inner.join(queue, receiverOver(receiver)) }
}
