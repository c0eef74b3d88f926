import { Duration, Either, Predicate, Redacted } from "effect"
import * as Backoff from "../../core/Backoff.js"
import * as HttpUrl from "../../core/HttpUrl.js"
import { limits } from "../../core/StoredJob.js"
import { isQueueName } from "../../queue/NewJob.js"
import { KeyOrder } from "../../queue/settings/QueueSettings.js"
import { updateTypes } from "../telegram/TelegramUpdate.js"
import { type BotDeclaration, type HandlerChoice, queueOf } from "./Declarations.js"
import * as FileFields from "./FileFields.js"
import { type FileContext, isSlug, secretsIn, slugRule, variablesOfBot } from "./FileFields.js"

const keys = ["handler", "http", "requireAuth", "async", "chatOrder", "onError", "updates", "attempts", "backoff"]
const httpKeys = ["url", "timeout", "redirects"]
const builtIn = ["echo", "http", "auth"]

const longestTimeout = Duration.seconds(30)
const usualTimeout = Duration.seconds(5)

/** Placeholder for an invalid URL. Never used: the file is rejected. */
export const placeholderUrl = new URL("http://invalid./")

export const readUrl: FileFields.Read<URL> = (value) => {
  const url = typeof value === "string" ? HttpUrl.parse(value) : undefined
  return url !== undefined && url.username === "" && url.password === ""
    ? Either.right(url)
    : Either.left("an http or https URL without credentials")
}

const readUpdates: FileFields.Read<ReadonlyArray<string>> = (value) => {
  const isListed = (type: unknown): type is string => typeof type === "string" && updateTypes.has(type)
  return Array.isArray(value) && value.length > 0 && value.every(isListed)
    ? Either.right([...new Set(value)])
    : Either.left(`a list of update types (${[...updateTypes].join(", ")})`)
}

const httpHandler = (fields: FileFields.FileFields): HandlerChoice => {
  const http = fields.problems.fields(fields.raw("http") ?? {}, fields.at("http"), httpKeys)
  return {
    _tag: "Http",
    url: http.required("url", readUrl, placeholderUrl),
    timeout: http.optional("timeout", FileFields.duration(longestTimeout), usualTimeout),
    redirects: http.optional("redirects", FileFields.whole(0, 5), 0)
  }
}

const kindHandler = (fields: FileFields.FileFields, facts: FileContext): HandlerChoice => {
  const given = fields.raw("handler")
  const known = facts.kinds
  if (typeof given !== "string" || (known !== undefined && !known.has(given))) {
    const kinds = [...(known ?? [])]
    const others = kinds.length === 0 ? "a kind of the app" : `a kind of the app (${kinds.join(", ")})`
    fields.problems.unknownWord(fields.at("handler"), `echo, http, auth or ${others}`, given, [...builtIn, ...kinds])
  } else if (!facts.database) {
    const reason = `the bot runs the kind ${given}, which requires a database: set DATABASE_URL, start with --embedded, or choose another handler`
    fields.problems.add(fields.at("handler"), reason)
  }
  return { _tag: "Kind", kind: String(given) }
}

const handlerOf = (fields: FileFields.FileFields, facts: FileContext): HandlerChoice => {
  const given = fields.raw("handler")
  if (given !== "http" && fields.has("http")) {
    fields.problems.add(fields.at("http"), "is allowed only with handler: http")
  }
  switch (given) {
    case "echo":
      return { _tag: "Echo" }
    case "http":
      return httpHandler(fields)
    case "auth":
      return { _tag: "Auth" }
    default:
      return kindHandler(fields, facts)
  }
}

const checkAuth = (fields: FileFields.FileFields, slug: string, isAuth: boolean, requireAuth: boolean) => {
  if (isAuth) {
    const reason = `the bot ${slug} signs users in, which requires AUTH_SECRET: set it, or choose another handler`
    fields.problems.add(fields.at("handler"), reason)
  } else if (requireAuth) {
    const reason = `the bot ${slug} asks users to sign in (the default), which requires AUTH_SECRET: set it, or set requireAuth: false`
    fields.problems.add(fields.at("requireAuth"), reason)
  }
}

const checkAsync = (fields: FileFields.FileFields, slug: string, isAuth: boolean, facts: FileContext) => {
  if (!facts.database) {
    const reason = `the bot ${slug} is async, which requires a database: set DATABASE_URL, start with --embedded, or set async: false`
    fields.problems.add(fields.at("async"), reason)
  }
  if (isAuth) {
    const reason = `the bot ${slug} signs users in, and async would store their codes in the job table: set async: false`
    fields.problems.add(fields.at("async"), reason)
  }
  if (isSlug(slug) && !isQueueName(queueOf(slug))) {
    fields.problems.add(
      fields.path,
      "the name of an async bot must be at most 60 characters long, because its queue is named after it"
    )
  }
}

/** The character set of Telegram's `secret_token`, and of tokens, which become part of a URL. */
const secretPattern = /^[A-Za-z0-9_-]{1,256}$/
const tokenPattern = /^[A-Za-z0-9:_-]{1,256}$/

/** Reads a bot's token and secrets from the environment. Problems never include their values. */
const credentialsOf = (fields: FileFields.FileFields, slug: string, { variables }: FileContext) => {
  const names = variablesOfBot(slug)
  const token = variables.get(names.token)
  const secrets = secretsIn(variables.get(names.secret) ?? "")
  const problem = (reason: string) => fields.problems.add(fields.path, reason)
  if (token === undefined) problem(`set ${names.token} to the token that BotFather gave the bot`)
  else if (!tokenPattern.test(token))
    problem(`${names.token} is not a valid bot token: it may contain only letters, digits, : _ and -`)
  if (secrets.length === 0) problem(`set ${names.secret} to the secret that Telegram sends with its updates`)
  if (secrets.length > 2)
    problem(`${names.secret} must have at most two secrets (two during a rotation), got ${secrets.length}`)
  if (!secrets.every((secret) => secretPattern.test(Redacted.value(secret)))) {
    problem(`${names.secret} must be 1 to 256 letters, digits, _ and -, because Telegram accepts no others`)
  }
  return { token: Redacted.make(token ?? ""), secrets }
}

const longestDelay = Duration.days(30)

const readDelay = FileFields.duration(longestDelay)

/** A delay, a list of delays, or delays that double: as in the backoff of a job. */
export const readBackoff: FileFields.Read<Backoff.Backoff> = (value) => {
  const isDoubling = Predicate.isRecord(value) && Object.keys(value).toSorted().join() === "base,max"
  const given = isDoubling ? [value.base, value.max] : Array.isArray(value) ? value : [value]
  const delays = Either.all(given.map((delay: unknown) => readDelay(delay)))
  const [first, ...more] = Either.getOrElse(delays, () => [])
  if (first === undefined)
    return Either.left(
      'a duration like 30s, a list like ["30s", "2m"], or { base: 10s, max: 1h }, each at most 30 days'
    )
  const [max] = more
  return Either.right(
    isDoubling && max !== undefined ? Backoff.exponential({ base: first, max }) : Backoff.stepwise(first, ...more)
  )
}

/** Attempts and delays of the jobs of an async bot. Absent fields have the usual values. */
const retriesOf = (
  fields: FileFields.FileFields,
  slug: string,
  isAsync: boolean
): Pick<BotDeclaration, "attempts" | "backoff"> => {
  for (const key of ["attempts", "backoff"]) {
    if (isAsync || !fields.has(key)) continue
    const reason = `the bot ${slug} is not async, so it has no jobs that could be retried: set async: true, or remove ${key}`
    fields.problems.add(fields.at(key), reason)
  }
  return {
    attempts: fields.optional("attempts", FileFields.whole(1, limits.attempts), undefined),
    backoff: fields.optional("backoff", readBackoff, undefined)
  }
}

/** Reads one bot. Problems are collected, and fallbacks replace invalid fields. */
export const read = (
  slug: string,
  value: unknown,
  problems: FileFields.FileProblems,
  facts: FileContext
): BotDeclaration => {
  const path = `bots.${slug}`
  if (!isSlug(slug)) problems.add(path, `${FileFields.shown(slug)} is not a valid bot name: ${slugRule}`)
  const fields = problems.fields(value, path, keys)
  const handler = handlerOf(fields, facts)
  const isAuth = handler._tag === "Auth"
  const requireAuth = fields.optional("requireAuth", FileFields.boolean, true) && !isAuth
  const isAsync = fields.optional("async", FileFields.boolean, false)
  if (!facts.authSecret) checkAuth(fields, slug, isAuth, requireAuth)
  if (isAsync) checkAsync(fields, slug, isAuth, facts)
  return {
    slug,
    handler,
    requireAuth,
    async: isAsync,
    chatOrder: fields.optional("chatOrder", FileFields.choice(KeyOrder.literals), "serial"),
    onError: fields.optional("onError", FileFields.choice(["apologize", "redeliver"]), "apologize"),
    ...(fields.has("updates") ? { updates: fields.required("updates", readUpdates, []) } : {}),
    ...retriesOf(fields, slug, isAsync),
    ...credentialsOf(fields, slug, facts)
  }
}
