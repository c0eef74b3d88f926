import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { toServerResponse } from "@effect/platform-node/NodeHttpServerRequest"
import { Clock, Duration, Effect, type Layer, Predicate, Runtime, type Schema } from "effect"
import * as CoalescingCache from "../../core/CoalescingCache.js"
import { InvalidJob } from "../../core/InvalidJob.js"
import * as JsonNumbers from "../../core/JsonNumbers.js"
import { Lifecycle } from "../../core/Lifecycle.js"
import * as Outcome from "../../core/Outcome.js"
import { plainNameRule } from "../../core/Storable.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { Kinds, type RegisteredKind } from "../../queue/Kinds.js"
import { isQueueName } from "../../queue/NewJob.js"
import type { ClaimedJob } from "../../queue/Queue.js"
import { defaultTimeout, type RemoteEnd, RemoteWorkers } from "../../worker/remote/RemoteWorkers.js"
import { Caller } from "../access/Caller.js"
import * as Body from "../Body.js"
import { about, apiOf } from "../Contract.js"
import * as Instant from "../Instant.js"
import { BadRequest, ClaimsRefused, Forbidden, jobsIn } from "../RequestErrors.js"
import * as ResponseFields from "../ResponseFields.js"
import * as WorkSchemas from "./WorkSchemas.js"

export const group = HttpApiGroup.make("work")
  .add(
    HttpApiEndpoint.post("claim", "/work/claim")
      .setPayload(WorkSchemas.ClaimRequest)
      .addSuccess(WorkSchemas.ClaimAnswer)
      .annotateContext(about("Claim due jobs for a remote worker, or wait for some.", 403))
  )
  .add(
    HttpApiEndpoint.post("heartbeat", "/work/heartbeat")
      .setPayload(WorkSchemas.HeartbeatRequest)
      .addSuccess(WorkSchemas.HeartbeatAnswer)
      .annotateContext(about("Keep the jobs of a remote worker, and learn which ones to stop."))
  )
  .add(
    HttpApiEndpoint.post("finish", "/work/finish")
      .setPayload(WorkSchemas.FinishRequest)
      .addSuccess(WorkSchemas.FinishAnswer)
      .annotateContext(
        about("End attempts of a remote worker. Safe to repeat: a result that was stored is not stored again.")
      )
  )

const maxClaimBytes = 1024 * 1024
const maxBodyBytes = 32 * 1024 * 1024

type Worker = WorkSchemas.ClaimRequest["worker"]

const aboutOf = ({ host, id, name, pid, runtime }: Worker) =>
  Effect.map(Caller, ({ who }) => ({ caller: who, id, name, runtime, host, pid }))

/**
 * Reads a body, and what is wrong with the numbers of a field with values, by the index of their job: they must not fail the
 * other jobs of the request. Checks the number of jobs before they are decoded: decoding a million only to reject them would
 * block the event loop.
 */
const bodyOf = <A, I>(
  request: HttpServerRequest.HttpServerRequest,
  schema: Schema.Schema<A, I>,
  values: "result" | "progress"
) =>
  Effect.gen(function* () {
    const { text, value: body } = yield* Body.parsed(request, maxBodyBytes)
    const count = jobsIn(body) ?? 0
    if (count > WorkSchemas.bounds.jobs) {
      const message = `jobs must have at most ${WorkSchemas.bounds.jobs} entries, got ${count}.`
      return yield* new BadRequest({ message, field: "jobs" })
    }
    const faults = new Map<number, InvalidJob>()
    for (const lost of JsonNumbers.allLostIn(text)) {
      const [list, index, name, ...rest] = lost.path
      if (list !== "jobs" || typeof index !== "number" || name !== values) return yield* Body.lostNumber(lost, body)
      if (faults.has(index) || JsonNumbers.isMinor(lost)) continue
      faults.set(
        index,
        new InvalidJob({ index: 0, field: JsonNumbers.fieldOf([name, ...rest]), reason: JsonNumbers.reasonOf(lost) })
      )
    }
    return { given: yield* Body.decodedJson(body, schema), faults }
  })

type KindsByName = ReadonlyMap<string, RegisteredKind>

/** Registered kinds by name. They are read once per second for all requests, or if one of these is not among them. */
const makeKinds = (kinds: typeof Kinds.Service) => {
  const read = Effect.map(kinds.all, (all): KindsByName => new Map(all.map((kind) => [kind.name, kind])))
  return Effect.map(
    CoalescingCache.refreshed(read, "1 second"),
    (cached) =>
      (names: ReadonlyArray<string>): Effect.Effect<KindsByName, DatabaseError> =>
        names.length === 0
          ? Effect.succeed(new Map())
          : Effect.flatMap(cached, ({ value }) =>
              names.every((name) => value.has(name)) ? Effect.succeed(value) : read
            )
  )
}

/** The queues of a claim. Fails for queues that the caller's token does not allow, and for kinds that are workflows. */
const queuesOf = ({ kinds: names = [], queues: given }: WorkSchemas.ClaimRequest, registered: KindsByName) =>
  Effect.gen(function* () {
    const workflow = names.findIndex((name) => registered.get(name)?.workflow === true)
    if (workflow >= 0) {
      const message = `"${names[workflow]}" is a workflow, which remote workers cannot run. Leave it out of kinds.`
      return yield* new BadRequest({ message, field: `kinds[${workflow}]` })
    }
    const queues = [...new Set(given ?? names.flatMap((name) => registered.get(name)?.queue ?? []))]
    if (queues.length === 0) {
      const message = "queues is missing, and no process has registered the kinds. Say which queues to claim from."
      return yield* new BadRequest({ message, field: "queues" })
    }
    const bad = queues.findIndex((name) => !isQueueName(name))
    if (bad >= 0) {
      const message = `queues[${bad}] ${plainNameRule}.`
      return yield* new BadRequest({ message, field: `queues[${bad}]` })
    }
    const { queues: allowed } = yield* Caller
    const other = allowed === undefined ? undefined : queues.find((name) => !allowed.includes(name))
    if (allowed !== undefined && other !== undefined) {
      const message = `This token may not run jobs of the queue "${other}", only of ${allowed.join(", ")}. Add the queue to the token in NIGHTSHIFT_WORKER_TOKENS, or leave it out.`
      return yield* new Forbidden({ message })
    }
    return queues
  })

const fieldsOf = ResponseFields.of(WorkSchemas.ClaimedJobView)

const viewOf =
  (timeout: number) =>
  (job: ClaimedJob): typeof WorkSchemas.ClaimedJobView.Type => ({
    ...fieldsOf(job),
    deadline: Instant.format(job.startedAt + timeout)
  })

const missing = (index: number, end: WorkSchemas.JobEnd, field: string) =>
  new BadRequest({
    message: `jobs[${index}].${field} is missing: the outcome ${end.outcome} needs it.`,
    field: `jobs[${index}].${field}`
  })

const outcomeOf = (
  end: WorkSchemas.JobEnd,
  index: number,
  fault: InvalidJob | undefined
): Effect.Effect<RemoteEnd["outcome"], BadRequest> => {
  const after = end.afterSeconds === undefined ? undefined : Duration.seconds(end.afterSeconds)
  switch (end.outcome) {
    case "done":
      return Effect.succeed(
        fault === undefined ? Outcome.done(end.result ?? undefined) : Outcome.dead(`its ${fault.field} ${fault.reason}`)
      )
    case "failed":
    case "retry":
      return end.error === undefined ? missing(index, end, "error") : Effect.succeed(Outcome.retry(end.error, after))
    case "dead":
      return end.error === undefined ? missing(index, end, "error") : Effect.succeed(Outcome.dead(end.error))
    case "snooze":
      return after === undefined ? missing(index, end, "afterSeconds") : Effect.succeed(Outcome.snooze(after))
    case "throttled": {
      const scope = end.scope === undefined ? {} : { scope: end.scope }
      return Effect.succeed(Outcome.throttled({ ...scope, ...(after === undefined ? {} : { after }) }))
    }
    case "cancelled":
      return Effect.succeed(Outcome.cancelled)
    case "returned":
      return Effect.succeed("returned")
  }
}

const lost = {
  tag: "LeaseLost",
  message:
    "The worker no longer holds this attempt: it timed out, sent no heartbeat for QUEUE_STALE_AFTER, or the lease is another worker's. The result was not stored. Discard it."
}

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "work">,
  never,
  RemoteWorkers | Kinds | Lifecycle
> = HttpApiBuilder.group(apiOf(group), "work", (handlers) =>
  Effect.gen(function* () {
    const remote = yield* RemoteWorkers
    const kindsOf = yield* makeKinds(yield* Kinds)
    const { draining, untilDraining } = yield* Lifecycle
    const fork = Runtime.runFork(yield* Effect.runtime<never>())

    /** Returns the jobs of a response that did not reach its client. */
    const watchDelivery = (request: HttpServerRequest.HttpServerRequest, jobs: ReadonlyArray<ClaimedJob>) =>
      Effect.sync(() => {
        if (jobs.length === 0 || !Predicate.hasProperty(request.source, "httpVersion")) return
        const response = toServerResponse(request)
        const onClose = () => {
          if (!response.writableFinished) fork(remote.giveBack(jobs))
        }
        if (response.destroyed) onClose()
        else response.once("close", onClose)
      })

    return handlers
      .handleRaw("claim", ({ request }) =>
        Effect.gen(function* () {
          const given = yield* Body.decoded(request, WorkSchemas.ClaimRequest, maxClaimBytes)
          // An answer without jobs would make the worker claim again at once.
          if (yield* draining) return yield* new ClaimsRefused()
          const queues = yield* queuesOf(given, yield* kindsOf(given.kinds ?? []))
          const timeout = Duration.toMillis(
            given.timeoutSeconds === undefined ? defaultTimeout : Duration.seconds(given.timeoutSeconds)
          )
          const worker = yield* aboutOf(given.worker)
          const claim = {
            worker,
            queues,
            kinds: given.kinds,
            max: given.max ?? 1,
            wait: Duration.seconds(given.waitSeconds ?? 0),
            ends: untilDraining
          }
          // Interruptible only while it waits: jobs that were claimed are returned, or sent.
          return yield* remote.claim(claim).pipe(
            Effect.tap((jobs) => watchDelivery(request, jobs)),
            Effect.map((jobs) =>
              HttpServerResponse.unsafeJson({
                jobs: jobs.map(viewOf(timeout)),
                heartbeatSeconds: Duration.toSeconds(remote.heartbeatEvery)
              })
            ),
            Effect.uninterruptible
          )
        })
      )
      .handleRaw("heartbeat", ({ request }) =>
        Effect.gen(function* () {
          const { faults, given } = yield* bodyOf(request, WorkSchemas.HeartbeatRequest, "progress")
          const worker = yield* aboutOf(given.worker)
          const jobs = given.jobs.map(({ extendSeconds, ...job }, index) => ({
            ...job,
            refused: faults.get(index),
            extend: extendSeconds === undefined ? undefined : Duration.seconds(extendSeconds)
          }))
          const { held, stop } = yield* remote.heartbeat(worker, jobs)
          if (given.leave === true) yield* remote.leave(worker)
          return HttpServerResponse.unsafeJson({
            jobs: held.map(({ deadline, id, lease, refused }) => ({
              id,
              lease,
              deadline: Instant.format(deadline),
              error: refused === undefined ? null : { tag: refused._tag, message: refused.message }
            })),
            stop
          })
        })
      )
      .handleRaw("finish", ({ request }) =>
        Effect.gen(function* () {
          const { faults, given } = yield* bodyOf(request, WorkSchemas.FinishRequest, "result")
          const worker = yield* aboutOf(given.worker)
          const now = yield* Clock.currentTimeMillis
          const ends = yield* Effect.forEach(given.jobs, (end, index) =>
            Effect.map(outcomeOf(end, index, faults.get(index)), (outcome) => ({
              id: end.id,
              lease: end.lease,
              outcome,
              log: (end.log ?? []).map(({ at = now, level = "info", message }) => ({
                at,
                level,
                message,
                step: undefined,
                error: undefined,
                fields: undefined
              }))
            }))
          )
          const written = yield* remote.finish(worker, ends)
          return HttpServerResponse.unsafeJson({
            jobs: ends.map(({ id, lease }, index) => {
              const status = written[index]
              return { id, lease, status: status ?? null, error: status === undefined ? lost : null }
            })
          })
        })
      )
  })
)
