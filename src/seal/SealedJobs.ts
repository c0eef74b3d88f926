import { Effect, Either } from "effect"
import { after, type Soon } from "../codec/DataKeys.js"
import { InvalidJob } from "../core/InvalidJob.js"
import { jsonText } from "../core/Storable.js"
import { computed, type FollowUp, limits, type OnDead } from "../core/StoredJob.js"
import type { DatabaseUnavailable } from "../database/DatabaseError.js"
import type { NewJob } from "../queue/NewJob.js"
import { all, type Sealer, sealing } from "./Sealer.js"

// Seals the values of jobs. Limits apply to the value, not to its sealed form, so they are checked here, as the queue does.

type Values = Pick<NewJob, "payload" | "payloadText" | "onDead"> & { readonly id?: NewJob["id"] }

/** Seals the payload of a follow-up. One that breaks a limit is left as it is: the store refuses it. */
export const sealedFollowUp = (sealer: Sealer, followUp: FollowUp): Soon<FollowUp> => {
  if (!sealer.seals || followUp.payload === undefined || Either.isLeft(jsonText(followUp, limits.payloadBytes)))
    return followUp
  return after(sealer.seal(JSON.stringify(followUp.payload)), (payload) => ({ ...followUp, payload }))
}

const sealedOnDead = (sealer: Sealer, onDead: OnDead | undefined): Soon<OnDead | undefined> =>
  onDead === undefined || onDead === computed ? onDead : sealedFollowUp(sealer, onDead)

const sealedJob = <J extends Values>(sealer: Sealer, job: J, sealed: ReturnType<Sealer["seal"]>): Soon<J> =>
  after(sealed, (payload) =>
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
  const texts: Array<readonly [J, string]> = []
  for (const [index, job] of jobs.entries()) {
    const text = textOf(job)
    if (Either.isLeft(text)) {
      const [field, reason] = text.left
      return Either.left(new InvalidJob({ index, jobs: jobs.length, field, reason }))
    }
    texts.push([job, text.right])
  }
  /** Sealed payloads by the job's id and the payload: the store takes a job that is given twice for one if both are the same. */
  const known = new Map<string, ReturnType<Sealer["seal"]>>()
  const payloadOf = ({ id }: J, text: string) => {
    if (id === undefined) return sealer.seal(text)
    const sealed = known.get(id + text) ?? sealer.seal(text)
    known.set(id + text, sealed)
    return sealed
  }
  // After all checks: the rejection of a promise that is not returned would end the process.
  return Either.right(all(texts.map(([job, text]) => sealedJob(sealer, job, payloadOf(job, text)))))
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
