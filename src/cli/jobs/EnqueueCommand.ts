import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { Console, type Duration, Effect, Option, Predicate, Schema } from "effect"
import { JobId } from "../../core/Ids.js"
import { DedupeScope } from "../../core/StoredJob.js"
import * as JobRequests from "../../queue/enqueue/JobRequests.js"
import { forceAdvice } from "../../queue/JobErrors.js"
import { type Enqueued, Queue } from "../../queue/Queue.js"
import { Transactions } from "../../queue/Transactions.js"
import * as CommonOptions from "../CommonOptions.js"
import { UsageError } from "../Failure.js"
import * as QueueLayer from "../QueueLayer.js"
import * as Settings from "../Settings.js"
import * as EnqueueOptions from "./EnqueueOptions.js"

const optionalText = (name: string, about: string) =>
  Options.text(name).pipe(Options.withDescription(about), Options.optional)
const optionalInteger = (name: string, about: string) =>
  Options.integer(name).pipe(Options.withDescription(about), Options.optional)

const options = {
  ...CommonOptions.database,
  payload: EnqueueOptions.payloadSource,
  queue: optionalText("queue", "The queue (default: the kind's queue, or a matching route)."),
  priority: optionalInteger("priority", "Lower runs first (default: the kind's)."),
  start: EnqueueOptions.start,
  key: optionalText("key", "Key for per-key limits and ordering."),
  dedupe: optionalText("dedupe", "Dedupe key: skip the job if another one with this key exists."),
  dedupeScope: Options.choice("dedupe-scope", DedupeScope.literals).pipe(
    Options.withDescription(
      "Skip until that job finishes (active) or until its row is deleted (retained). Default: retained with --dedupe-window, otherwise active."
    ),
    Options.optional
  ),
  dedupeWindow: EnqueueOptions.duration(
    "dedupe-window",
    "How long a retained key is held after its job was stored, as in 1h."
  ),
  dedupeReplace: Options.boolean("dedupe-replace").pipe(
    Options.withDescription("If that job is pending, give it this payload, start and priority.")
  ),
  maxAttempts: optionalInteger("max-attempts", "Maximum number of attempts (default: the kind's)."),
  meta: optionalText("meta", 'JSON object stored with the job, as in \'{"order":"A-17"}\'.'),
  id: optionalText("id", "The job's id. Set it to make retries of this command safe."),
  force: Options.boolean("force").pipe(
    Options.withDescription("Enqueue even if no pod has registered the kind or the payload does not match its schema.")
  ),
  json: CommonOptions.json
}

const kind = Args.text({ name: "kind" }).pipe(Args.withDescription("The job's kind."))

const readId = (text: Option.Option<string>) =>
  Option.match(text, {
    onNone: () => Effect.succeed(undefined),
    onSome: (id) =>
      Effect.mapError(Schema.decode(JobId)(id), () => new UsageError({ message: `--id must be a UUID, got "${id}".` }))
  })

const readMeta = (text: Option.Option<string>) =>
  Effect.gen(function* () {
    if (Option.isNone(text)) return undefined
    const meta = yield* EnqueueOptions.parsePayload(text.value, "--meta")
    return Predicate.isRecord(meta)
      ? meta
      : yield* new UsageError({
          message: `--meta must be a JSON object like {"order":"A-17"}, got ${JSON.stringify(text.value)}.`
        })
  })

interface DedupeFlags {
  readonly dedupe: Option.Option<string>
  readonly dedupeScope: Option.Option<DedupeScope>
  readonly dedupeWindow: Option.Option<Duration.Duration>
  readonly dedupeReplace: boolean
}

const readDedupe = ({ dedupe, dedupeReplace, dedupeScope, dedupeWindow }: DedupeFlags) => {
  if (Option.isSome(dedupe)) {
    return Effect.succeed({
      key: dedupe.value,
      scope: Option.getOrUndefined(dedupeScope),
      window: Option.getOrUndefined(dedupeWindow),
      replace: dedupeReplace
    })
  }
  const isAlone = Option.isSome(dedupeScope) || Option.isSome(dedupeWindow) || dedupeReplace
  if (!isAlone) return Effect.succeed(undefined)
  return new UsageError({ message: "--dedupe-scope, --dedupe-window and --dedupe-replace need --dedupe with a key." })
}

/** Translates a field name of a validation error to its option. */
const optionOf = (field: string) => {
  if (field === "dedupe.key") return "--dedupe"
  if (/^payload[.[]/.test(field)) return field
  return `--${field.replace(".", "-").replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
}

const printOutcome = (json: boolean, { id, outcome }: Enqueued) =>
  Console.log(json ? JSON.stringify({ id, outcome }) : `${outcome} ${id}`)

export const command = Command.make("enqueue", { kind, ...options }, (given) =>
  Effect.gen(function* () {
    const payload = yield* EnqueueOptions.readPayload(given.payload)
    const id = yield* readId(given.id)
    const meta = yield* readMeta(given.meta)
    const dedupe = yield* readDedupe(given)
    yield* Effect.gen(function* () {
      const queue = yield* Queue
      const transactions = yield* Transactions
      const request: JobRequests.JobRequest = {
        kind: given.kind,
        payload,
        id,
        queue: Option.getOrUndefined(given.queue),
        priority: Option.getOrUndefined(given.priority),
        runAt: yield* EnqueueOptions.resolveStart(given.start),
        maxAttempts: Option.getOrUndefined(given.maxAttempts),
        key: Option.getOrUndefined(given.key),
        meta,
        dedupe
      }
      const jobs = yield* JobRequests.resolve([request], { force: given.force, check: true })
      // In a transaction, NOTIFY is sent with the commit. Otherwise this process could exit before sending it.
      const enqueued = yield* transactions.run(queue.enqueue(jobs))
      yield* Effect.forEach(enqueued, (outcome) => printOutcome(given.json, outcome), { discard: true })
    }).pipe(Effect.provide(QueueLayer.layerForCommand))
  }).pipe(
    Effect.catchTag("InvalidJob", ({ field, reason }) => {
      const what = field === "kind" ? "The kind" : optionOf(field)
      return new UsageError({ message: `${what} ${reason.replace(forceAdvice, "add --force")}.` })
    }),
    Effect.catchTag("KindRefused", ({ message }) => {
      return new UsageError({ message: message.replace(forceAdvice, "add --force") })
    }),
    Settings.configured(CommonOptions.databaseFlags(given))
  )
).pipe(Command.withDescription("Enqueue a job."))
