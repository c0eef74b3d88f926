import { Effect, Either } from "effect"
import { InvalidJob } from "../core/InvalidJob.js"
import { jsonText } from "../core/Storable.js"
import { computed, type FollowUp, limits, type OnDead } from "../core/StoredJob.js"
import type { DatabaseUnavailable } from "../database/DatabaseError.js"
import type { NewJob } from "../queue/NewJob.js"
import { after, all, type Sealer, type Soon, sealing } from "./Sealer.js"

// Seals the values of jobs. Limits apply to the value, not to its sealed form, so they are checked here, as the queue does.

type Values = Pick<NewJob, "payload" | "payloadText" | "onDead">

/** Seals the payload of a follow-up. One that breaks a limit is left as it is: the store refuses it. */
export const sealedFollowUp = (sealer: Sealer, followUp: FollowUp): Soon<FollowUp> => {
  if (!sealer.seals || followUp.payload === undefined || Either.isLeft(jsonText(followUp, limits.payloadBytes)))
    return followUp
  return after(sealer.seal(JSON.stringify(followUp.payload)), (payload) => ({ ...followUp, payload }))
}

const sealedOnDead = (sealer: Sealer, onDead: OnDead | undefined): Soon<OnDead | undefined> =>
  onDead === undefined || onDead === computed ? onDead : sealedFollowUp(sealer, onDead)

const sealedJob = <J extends Values>(sealer: Sealer, job: J, text: string): Soon<J> =>
  after(sealer.seal(text), (payload) =>
    after(sealedOnDead(sealer, job.onDead), (onDead) => ({
      ...job,
      payload,
      payloadText: undefined,
      ...(onDead === undefined ? {} : { onDead })
    }))
  )

/** Why the values of a job cannot be stored, or its payload as JSON text. */
const textOf = ({ onDead, payload, payloadText }: Values): Either.Either<string, readonly [string, string]> => {
  const followUp = onDead === undefined ? undefined : jsonText(onDead, limits.payloadBytes)
  if (followUp !== undefined && Either.isLeft(followUp)) return Either.left(["onDead", followUp.left])
  return Either.mapLeft(jsonText(payload, limits.payloadBytes, payloadText), (reason) => ["payload", reason])
}

/** Seals jobs at once, as far as the codec can. */
export const sealedNow = <J extends Values>(
  sealer: Sealer,
  jobs: ReadonlyArray<J>
): Either.Either<Soon<ReadonlyArray<J>>, InvalidJob> => {
  if (!sealer.seals) return Either.right(jobs)
  const sealed: Array<Soon<J>> = []
  for (const [index, job] of jobs.entries()) {
    const text = textOf(job)
    if (Either.isLeft(text)) {
      const [field, reason] = text.left
      return Either.left(new InvalidJob({ index, jobs: jobs.length, field, reason }))
    }
    sealed.push(sealedJob(sealer, job, text.right))
  }
  return Either.right(all(sealed))
}

/** Seals payloads and follow-ups of jobs. */
export const sealedJobs = <J extends Values>(
  sealer: Sealer,
  jobs: ReadonlyArray<J>
): Effect.Effect<ReadonlyArray<J>, InvalidJob | DatabaseUnavailable> =>
  Effect.suspend(() => {
    let invalid: InvalidJob | undefined
    const sealed = sealing(() => {
      const made = sealedNow(sealer, jobs)
      if (Either.isRight(made)) return made.right
      invalid = made.left
      return []
    })
    return Effect.flatMap(sealed, (made) => (invalid === undefined ? Effect.succeed(made) : Effect.fail(invalid)))
  })

/** The same for one job. */
export const sealedOne = <J extends Values>(
  sealer: Sealer,
  job: J
): Effect.Effect<J, InvalidJob | DatabaseUnavailable> => Effect.map(sealedJobs(sealer, [job]), ([only]) => only as J)
