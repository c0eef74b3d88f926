import type { Data, Duration, Redacted } from "effect"
import type { KeyOrder } from "../../queue/settings/QueueSettings.js"

/** Who answers a bot's updates. */
export type HandlerChoice = Data.TaggedEnum<{
  Echo: {}
  Http: { readonly url: URL; readonly timeout: Duration.Duration; readonly redirects: number }
  Auth: {}
  Kind: { readonly kind: string }
}>

/** A Telegram bot as the file declares it, with what the environment knows of it. */
export interface BotDeclaration {
  readonly slug: string
  readonly handler: HandlerChoice
  readonly requireAuth: boolean
  readonly async: boolean
  /** How an async bot's jobs of one chat follow each other. */
  readonly chatOrder: KeyOrder
  /** What becomes of an update that a sync bot's handler failed on: the user is told, or Telegram delivers it again. */
  readonly onError: "apologize" | "redeliver"
  /** The types of updates that it takes, where the file says so. */
  readonly updates?: ReadonlyArray<string> | undefined
  readonly token: Redacted.Redacted
  /** The first is the one to give to Telegram; others are still accepted. */
  readonly secrets: ReadonlyArray<Redacted.Redacted>
}

/** How a webhook's sender signs. */
export const signatureStyles = ["standard", "github", "stripe"] as const
export type SignatureStyle = (typeof signatureStyles)[number]

/** A signed webhook that is not Telegram's. */
export interface SourceDeclaration {
  readonly name: string
  readonly style: SignatureStyle
  /** The kind of the jobs that its deliveries become. */
  readonly kind: string
  readonly secrets: ReadonlyArray<Redacted.Redacted>
}

/** Everything that the file declares. */
export interface Declarations {
  readonly bots: ReadonlyArray<BotDeclaration>
  readonly sources: ReadonlyArray<SourceDeclaration>
}

export const none: Declarations = { bots: [], sources: [] }

/** The types of updates that a bot takes; absent where that depends on each update. */
export const updatesOf = ({ handler, updates }: BotDeclaration): ReadonlyArray<string> | undefined =>
  updates ?? (handler._tag === "Echo" || handler._tag === "Auth" ? ["message"] : undefined)

/** The queue that an async bot's jobs wait in. */
export const queueOf = (slug: string): string => `bot-${slug}`

/** The kind of an async bot's jobs. */
export const kindOf = (slug: string): string => `telegram.${slug}`

/** The queues of all async bots. */
export const queuesOf = ({ bots }: Declarations): ReadonlyArray<string> =>
  bots.filter((bot) => bot.async).map(({ slug }) => queueOf(slug))
