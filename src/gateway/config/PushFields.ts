import { Duration, Either, Redacted } from "effect"
import { faultOfKind, plainNameRule } from "../../core/Storable.js"
import { limits } from "../../core/StoredJob.js"
import { isQueueName } from "../../queue/NewJob.js"
import { keyOf } from "../SignedSources.js"
import { placeholderUrl, readBackoff, readUrl } from "./BotFields.js"
import type { PushDeclaration } from "./Declarations.js"
import * as FileFields from "./FileFields.js"
import { type FileContext, secretsIn, variableOfPush } from "./FileFields.js"

const keys = ["url", "queue", "attempts", "timeout", "backoff", "throttles"]

/** Functions of most platforms may run this long or less. */
const usualTimeout = Duration.seconds(60)
const longestTimeout = Duration.hours(24)

const readQueue: FileFields.Read<string> = (value) =>
  typeof value === "string" && isQueueName(value)
    ? Either.right(value)
    : Either.left(`a queue, whose name ${plainNameRule}`)

/** Reads one kind that is sent to a URL. Problems are collected, and fallbacks replace invalid fields. */
export const read = (
  kind: string,
  value: unknown,
  problems: FileFields.FileProblems,
  facts: FileContext
): PushDeclaration => {
  const path = `push.${kind}`
  const fields = problems.fields(value, path, keys)
  const fault = kind.trim() === "" ? "must not be empty" : faultOfKind(kind)
  if (fault !== undefined) problems.add(path, `the name of a kind ${fault}`)
  if (facts.kinds?.has(kind) === true)
    problems.add(path, "the app has a handler for this kind: remove one of them, or rename the kind")
  if (!facts.database)
    problems.add(path, "jobs require a database: set DATABASE_URL, start with --embedded, or remove the kind")
  const variable = variableOfPush(kind)
  const secrets = secretsIn(facts.variables.get(variable) ?? "")
  if (secrets.length === 0) problems.add(path, `set ${variable} to the secret that signs the requests`)
  if (secrets.length > 2)
    problems.add(path, `${variable} must have at most two secrets (two during a rotation), got ${secrets.length}`)
  if (!secrets.every((secret) => keyOf("standard", Redacted.value(secret)) !== undefined)) {
    problems.add(path, `${variable} must be whsec_ followed by 24 to 64 bytes in base64, as Standard Webhooks requires`)
  }
  return {
    kind,
    url: fields.required("url", readUrl, placeholderUrl),
    queue: fields.optional("queue", readQueue, undefined),
    attempts: fields.optional("attempts", FileFields.whole(1, limits.attempts), undefined),
    timeout: fields.optional("timeout", FileFields.duration(longestTimeout), usualTimeout),
    backoff: fields.optional("backoff", readBackoff, undefined),
    throttles: fields.optional("throttles", FileFields.choice(["queue", "key", "job"]), "queue"),
    secrets
  }
}
