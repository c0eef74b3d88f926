import { timingSafeEqual } from "node:crypto"
import { Context, Duration, Effect, Layer, Redacted, Scope } from "effect"
import type { ConfigError } from "effect/ConfigError"
import { type Backoff, ladder } from "../core/Backoff.js"
import { limits } from "../core/StoredJob.js"
import { type Handler, opened } from "../handlers/Handler.js"
import * as Registry from "../handlers/Registry.js"
import type { Transactions } from "../queue/Transactions.js"
import * as AuthHandler from "./auth/AuthHandler.js"
import type { AuthSessions } from "./auth/AuthSessions.js"
import { attemptOf, type BotHandler, echo, ofKind } from "./BotHandler.js"
import * as BotsFile from "./config/BotsFile.js"
import {
  type BotDeclaration,
  type Declarations,
  none,
  type SourceDeclaration,
  updatesOf
} from "./config/Declarations.js"
import { GatewayConfig } from "./config/GatewayConfig.js"
import type { SafeFetch } from "./fetch/SafeFetch.js"
import * as HttpHandler from "./HttpHandler.js"
import { keyOf } from "./SignedSources.js"
import type { Telegram } from "./telegram/Telegram.js"
import { typeOf, type Update } from "./telegram/TelegramUpdate.js"

/** A declared bot with its handler. */
export interface Bot extends BotDeclaration {
  readonly handle: BotHandler["handle"]
  /** Whether the handler takes an update. Other updates are acknowledged and dropped. */
  readonly takes: (update: Update) => boolean
  /** The webhook secrets, in the form in which requests are compared. */
  readonly known: ReadonlyArray<Buffer>
}

/** Snooze of a job whose bot this process does not declare: another pod, or a later version of the file, may declare it. */
export const untilDeclared: Duration.Duration = Duration.seconds(30)

/** Maximum length of a Telegram webhook secret. */
const maxSecretCharacters = 256

/** Pads a text to a fixed size and appends its length. */
const padded = (text: string, into = Buffer.alloc(maxSecretCharacters + 2)): Buffer => {
  into.fill(0)
  into.write(text, 0, maxSecretCharacters, "latin1")
  into.writeUInt16LE(Math.min(text.length, 0xffff), maxSecretCharacters)
  return into
}

const given = Buffer.alloc(maxSecretCharacters + 2)

/**
 * Whether the text is one of the bot's webhook secrets. Compares all of them in constant time, without digests: the
 * secrets are short, and digests would take ten times as long.
 */
export const isSecretOf = ({ known }: Pick<Bot, "known">, text: string): boolean => {
  padded(text, given)
  let found = false
  for (const expected of known) found = timingSafeEqual(given, expected) || found
  return found
}

/** A declared source with its signing keys. */
export interface Source extends SourceDeclaration {
  readonly keys: ReadonlyArray<Buffer>
}

/** The bots and sources currently declared by the file. */
export class Bots extends Context.Tag("nightshift/gateway/Bots")<
  Bots,
  {
    readonly bot: (slug: string) => Bot | undefined
    readonly source: (name: string) => Source | undefined
    readonly all: () => ReadonlyArray<Bot>
    readonly sources: () => ReadonlyArray<Source>
    /** Reloads the file. An invalid file fails with its problems and changes nothing. */
    readonly reload: Effect.Effect<Declarations, BotsFile.BotsFileInvalid | ConfigError>
  }
>() {
  /** For a process that receives no webhooks. */
  static readonly layerNone: Layer.Layer<Bots> = Layer.succeed(Bots, {
    bot: () => undefined,
    source: () => undefined,
    all: () => [],
    sources: () => [],
    reload: Effect.succeed(none)
  })
}

export interface BotsOptions<R> {
  /** The declarations read at startup. */
  readonly declared: Declarations
  /** Whether jobs can be stored. */
  readonly database: boolean
  /** Kinds that a bot may use as its handler. */
  readonly handlers: ReadonlyArray<Handler<R>>
}

interface Registered {
  readonly bots: ReadonlyMap<string, Bot>
  readonly sources: ReadonlyMap<string, Source>
}

const sourceOf = (source: SourceDeclaration): Source => ({
  ...source,
  keys: source.secrets.flatMap((secret) => keyOf(source.style, Redacted.value(secret)) ?? [])
})

type Needs = GatewayConfig | AuthSessions | Telegram | SafeFetch | Transactions

const delaysOf = (backoff: Backoff) =>
  Array.from({ length: limits.attempts }, (_, index) => Duration.toMillis(backoff(index + 1, 0)))

const isEqual = (left: unknown, right: unknown) => JSON.stringify(left) === JSON.stringify(right)

/** What a reload changes of the jobs and queues of async bots. Both are declared at startup only. */
const changedAsyncBots = <R>(
  { declared: before, handlers }: BotsOptions<R>,
  declared: Declarations
): ReadonlyArray<string> => {
  const atStart = new Map(before.bots.filter((bot) => bot.async).map((bot) => [bot.slug, bot]))
  const problemsOf = (bot: BotDeclaration) => {
    const known = atStart.get(bot.slug)
    if (known === undefined) return ["async: the bot was not async when this process started"]
    const hasChanged = (valueOf: (of: BotDeclaration) => unknown) => !isEqual(valueOf(known), valueOf(bot))
    return [
      ...(hasChanged(({ chatOrder }) => chatOrder) ? ["chatOrder: has changed since this process started"] : []),
      ...(hasChanged(({ backoff = ladder }) => delaysOf(backoff))
        ? ["backoff: has changed since this process started"]
        : []),
      ...(hasChanged(({ handler }) => attemptOf(handler, handlers))
        ? ["handler: its timeout, or whether it runs in a transaction, has changed since this process started"]
        : [])
    ]
  }
  return declared.bots
    .filter((bot) => bot.async)
    .flatMap((bot) =>
      problemsOf(bot).map((problem) => `bots.${bot.slug}.${problem}; restart the process to apply the change`)
    )
}

/** Pushed kinds that a reload adds or changes. Handlers and their queues are made at startup only. */
export const changedPushes = (before: Declarations, declared: Declarations): ReadonlyArray<string> => {
  const textOf = ({ push }: Declarations, name: string) =>
    JSON.stringify(
      push.find(({ kind }) => kind === name),
      (_, value) => (typeof value === "function" ? delaysOf(value) : value)
    )
  const names = new Set([...before.push, ...declared.push].map(({ kind }) => kind))
  return [...names]
    .filter((name) => textOf(before, name) !== textOf(declared, name))
    .map((name) => `push.${name}: the kind has changed since this process started; restart the process to apply it`)
}

/** Provides the bots and sources declared at startup. A reload replaces them atomically. */
export const layer = <R>(options: BotsOptions<R>): Layer.Layer<Bots, never, R | Needs> =>
  Layer.scoped(
    Bots,
    Effect.gen(function* () {
      const scope = yield* Effect.scope
      const config = yield* GatewayConfig
      const registry = Registry.make(options.handlers)
      const context = yield* Effect.context<R | Needs>()

      // Handlers are opened once and stay open across reloads, until the process ends.
      const kinds = new Map<string, BotHandler>()
      const openedKind = (name: string): Effect.Effect<BotHandler, never, R | Needs> =>
        Effect.gen(function* () {
          const known = kinds.get(name)
          if (known !== undefined) return known
          const entry = registry.get(name)
          if (entry === undefined) return yield* Effect.dieMessage(`unknown kind ${name}`)
          const handler = yield* Scope.extend(opened(entry.handler), scope)
          const made = yield* ofKind({ ...entry, handler })
          kinds.set(name, made)
          return made
        })

      /**
       * A kind takes the updates that match its payload schema, and all messages: if a message does not match, its user
       * gets an error reply instead of silence.
       */
      const updateFilter = (declared: BotDeclaration): Bot["takes"] => {
        const types = updatesOf(declared)
        if (types !== undefined) return (update) => types.includes(typeOf(update) ?? "")
        const entry = declared.handler._tag === "Kind" ? registry.get(declared.handler.kind) : undefined
        if (entry === undefined) return () => true
        const { decode, handler } = entry
        return (update) => typeOf(update) === "message" || decode(update, handler.kind.version)._tag === "Ready"
      }

      const handlerOf = ({ handler }: BotDeclaration): Effect.Effect<BotHandler, never, R | Needs> => {
        switch (handler._tag) {
          case "Echo":
            return Effect.succeed(echo)
          case "Http":
            return HttpHandler.make(handler)
          case "Auth":
            return AuthHandler.make
          case "Kind":
            return openedKind(handler.kind)
        }
      }

      const botOf = (declared: BotDeclaration): Effect.Effect<Bot, never, R | Needs> =>
        Effect.map(handlerOf(declared), ({ handle }) => ({
          ...declared,
          handle,
          takes: updateFilter(declared),
          known: declared.secrets.map((secret) => padded(Redacted.value(secret)))
        }))

      const register = (declared: Declarations): Effect.Effect<Registered, never, R | Needs> =>
        Effect.map(Effect.forEach(declared.bots, botOf), (bots) => ({
          bots: new Map(bots.map((bot) => [bot.slug, bot])),
          sources: new Map(declared.sources.map((source) => [source.name, sourceOf(source)]))
        }))

      let registered = yield* register(options.declared)

      const reload = Effect.gen(function* () {
        const kinds = new Set(registry.keys())
        const declared = yield* BotsFile.load({ database: options.database, kinds })
        const isGone = declared === none && registered.bots.size + registered.sources.size > 0
        const problems = [
          ...(isGone ? ["the file no longer exists. Empty it instead, to stop all bots"] : []),
          ...changedAsyncBots(options, declared),
          ...changedPushes(options.declared, declared)
        ]
        if (problems.length > 0) return yield* new BotsFile.BotsFileInvalid({ file: BotsFile.fileOf(config), problems })
        registered = yield* register(declared)
        return declared
      })

      return {
        bot: (slug) => registered.bots.get(slug),
        source: (name) => registered.sources.get(name),
        all: () => [...registered.bots.values()],
        sources: () => [...registered.sources.values()],
        reload: Effect.provide(reload, context)
      }
    })
  )
