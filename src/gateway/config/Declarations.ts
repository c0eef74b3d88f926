import type { Data, Duration, Redacted } from "effect"
import type { Backoff } from "../../core/Backoff.js"
import type { KeyOrder } from "../../queue/settings/QueueSettings.js"

/** The handler of a bot's updates. */
export type HandlerChoice = Data.TaggedEnum<{
  Echo: {}
  Http: { readonly url: URL; readonly timeout: Duration.Duration; readonly redirects: number }
  Auth: {}
  Kind: { readonly kind: string }
}>

/** A Telegram bot as declared in the file, with its credentials from the environment. */
export interface BotDeclaration {
  readonly slug: string
  readonly handler: HandlerChoice
  readonly requireAuth: boolean
  readonly async: boolean
  /** Order of an async bot's jobs within one chat. */
  readonly chatOrder: KeyOrder
  /** What happens when a sync bot's handler fails: the user gets an apology, or Telegram redelivers the update. */
  readonly onError: "apologize" | "redeliver"
  /** Update types that the bot takes, if the file lists them. */
  readonly updates?: ReadonlyArray<string> | undefined
  /** Attempts of an async bot's jobs, counting the first, if the file sets them. */
  readonly attempts?: number | undefined
  /** Delays after failed attempts, if the file sets them. */
  readonly backoff?: Backoff | undefined
  readonly token: Redacted.Redacted
  /** The first secret is registered with Telegram; all of them are accepted. */
  readonly secrets: ReadonlyArray<Redacted.Redacted>
}

export const signatureStyles = ["standard", "github", "stripe"] as const
export type SignatureStyle = (typeof signatureStyles)[number]

/** A sender of signed webhooks other than Telegram. */
export interface SourceDeclaration {
  readonly name: string
  readonly style: SignatureStyle
  /** The kind of the jobs made from its deliveries. */
  readonly kind: string
  readonly secrets: ReadonlyArray<Redacted.Redacted>
}

/** A kind whose jobs are sent to a URL. Absent fields have the values of every kind. */
export interface PushDeclaration {
  readonly kind: string
  readonly url: URL
  readonly queue?: string | undefined
  readonly attempts?: number | undefined
  readonly timeout: Duration.Duration
  readonly backoff?: Backoff | undefined
  readonly throttles: "queue" | "key" | "job"
  readonly secrets: ReadonlyArray<Redacted.Redacted>
}

export interface Declarations {
  readonly bots: ReadonlyArray<BotDeclaration>
  readonly sources: ReadonlyArray<SourceDeclaration>
  readonly push: ReadonlyArray<PushDeclaration>
}

export const none: Declarations = { bots: [], sources: [], push: [] }

/** Update types that a bot takes; undefined if its handler decides per update. */
export const updatesOf = ({ handler, updates }: BotDeclaration): ReadonlyArray<string> | undefined =>
  updates ?? (handler._tag === "Echo" || handler._tag === "Auth" ? ["message"] : undefined)

/** The queue of an async bot's jobs. */
export const queueOf = (slug: string): string => `bot-${slug}`

/** The kind of an async bot's jobs. */
export const kindOf = (slug: string): string => `telegram.${slug}`

/** The queues of all async bots. */
export const queuesOf = ({ bots }: Declarations): ReadonlyArray<string> =>
  bots.filter((bot) => bot.async).map(({ slug }) => queueOf(slug))
