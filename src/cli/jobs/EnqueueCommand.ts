import { Console, Effect, Either, Predicate } from "effect"
import { JobId } from "../../core/Ids.js"
import { DedupeScope } from "../../core/StoredJob.js"
import * as JobRequests from "../../queue/enqueue/JobRequests.js"
import { forceAdvice } from "../../queue/JobErrors.js"
import { type Enqueued, Queue } from "../../queue/Queue.js"
import { Transactions } from "../../queue/Transactions.js"
import * as CommonOptions from "../CommonOptions.js"
import { notBoth, UsageError } from "../Failure.js"
import * as Command from "../kit/Command.js"
import * as Input from "../kit/Input.js"
import { onDatabase } from "../QueueCommand.js"
import * as EnqueueOptions from "./EnqueueOptions.js"

const jsonObject: Input.Value<Record<string, unknown>> = {
  ...Input.json,
  read: (text) =>
    Either.filterOrLeft(
      Input.json.read(text),
      Predicate.isRecord,
      () => `must be a JSON object like {"order":"A-17"}, got ${JSON.stringify(text)}`
    )
}

const options = {
  ...CommonOptions.database,
  ...EnqueueOptions.payloadSource,
  queue: Input.optional(Input.text, "The queue (default: the kind's queue, or a matching route)."),
  priority: Input.optional(Input.integer(), "Lower runs first (default: the kind's)."),
  ...EnqueueOptions.start,
  key: Input.optional(Input.text, "Key for per-key limits and ordering."),
  dedupe: Input.optional(Input.text, "Dedupe key: skip the job if another one with this key exists."),
  dedupeScope: Input.optional(
    Input.choice(DedupeScope.literals),
    "Skip until that job finishes (active) or until its row is deleted (retained). Default: retained with --dedupe-window, otherwise active."
  ),
  dedupeWindow: Input.optional(Input.duration, "How long a retained key is held after its job was stored, as in 1h."),
  dedupeReplace: Input.flag("If that job is pending, give it this payload, start and priority."),
  attempts: Input.optional(
    Input.integer(),
    "Attempts before the job is dead, counting the first (default: the kind's)."
  ),
  meta: Input.optional(jsonObject, 'JSON object stored with the job, as in \'{"order":"A-17"}\'.'),
  subject: EnqueueOptions.subject,
  id: Input.optional(Input.uuid(JobId, "The id"), "The job's id. Set it to make retries of this command safe."),
  force: Input.flag("Enqueue even if no process has registered the kind or the payload does not match its schema."),
  json: CommonOptions.json
}

type Given = Input.Given<typeof options>

const readDedupe = ({ dedupe, dedupeReplace, dedupeScope, dedupeWindow }: Given) => {
  if (dedupe !== undefined) {
    return Effect.succeed({ key: dedupe, scope: dedupeScope, window: dedupeWindow, replace: dedupeReplace })
  }
  const isAlone = dedupeScope !== undefined || dedupeWindow !== undefined || dedupeReplace
  if (!isAlone) return Effect.succeed(undefined)
  return new UsageError({ message: "--dedupe-scope, --dedupe-window and --dedupe-replace need --dedupe with a key." })
}

/** Translates a field name of a validation error to its option. */
const optionOf = (field: string) => {
  if (field === "dedupe.key") return "--dedupe"
  if (/^payload[.[]/.test(field)) return field
  return `--${Command.optionName(field.replace(".", "-"))}`
}

const printOutcome = (json: boolean, { id, outcome }: Enqueued) =>
  Console.log(json ? JSON.stringify({ id, outcome }) : `${outcome} ${id}`)

export const command = Command.make({
  about: "Enqueue a job.",
  args: { kind: Input.required(Input.text, "The job's kind.") },
  options,
  examples: {
    'nightshift enqueue greet --payload \'{"name":"Ada"}\'': "enqueue a job that is due now",
    "nightshift enqueue report --delay 5m --priority 10": "due in 5 minutes, at a lower priority",
    "nightshift enqueue report --dedupe daily": "skip if an unfinished job has this key",
    "cat order.json | nightshift enqueue import --payload -": "read the payload from stdin"
  },
  run: (given) =>
    Effect.gen(function* () {
      yield* notBoth("--run-at", "--delay", given.runAt !== undefined && given.delay !== undefined)
      const request: JobRequests.JobRequest = {
        kind: given.kind,
        payload: yield* EnqueueOptions.readPayload(given),
        id: given.id,
        queue: given.queue,
        priority: given.priority,
        runAt: given.runAt,
        delay: given.delay,
        attempts: given.attempts,
        key: given.key,
        meta: given.meta,
        subject: given.subject,
        dedupe: yield* readDedupe(given)
      }
      yield* Effect.gen(function* () {
        const queue = yield* Queue
        const transactions = yield* Transactions
        const jobs = yield* JobRequests.resolve([request], { force: given.force, check: true })
        // In a transaction, NOTIFY is sent with the commit. Otherwise this process could exit before sending it.
        const enqueued = yield* transactions.run(queue.enqueue(jobs))
        yield* Effect.forEach(enqueued, (outcome) => printOutcome(given.json, outcome), { discard: true })
      }).pipe(onDatabase(given))
    }).pipe(
      Effect.catchTag("InvalidJob", ({ field, reason }) => {
        const what = field === "kind" ? "The kind" : optionOf(field)
        return new UsageError({ message: `${what} ${reason.replace(forceAdvice, "add --force")}.` })
      }),
      Effect.catchTag("KindRefused", ({ message }) => {
        return new UsageError({ message: message.replace(forceAdvice, "add --force") })
      })
    )
})
