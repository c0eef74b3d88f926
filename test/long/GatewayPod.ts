import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import * as Nightshift from "../support/Nightshift.js"

/** Secrets that are easy to search for. */
export const credentials = {
  BOT_HELPER_TOKEN: "4242:helper-token-to-be-hidden",
  BOT_HELPER_SECRET: "helper-secret-to-be-hidden",
  BOT_DESK_TOKEN: "4343:desk-token-to-be-hidden",
  BOT_DESK_SECRET: "desk-secret-to-be-hidden",
  AUTH_SECRET: "auth-code-to-be-hidden"
} as const

export const hidden = /to-be-hidden/

export interface PodOptions {
  readonly cwd: string
  readonly args?: ReadonlyArray<string>
  readonly env?: Readonly<Record<string, string>>
}

export const writeBots = (cwd: string, yaml: string) => writeFileSync(join(cwd, "bots.yaml"), yaml)

/** Starts a real process that serves bots; returns when it listens. */
export const start = ({ args = [], cwd, env = {} }: PodOptions) =>
  Effect.gen(function* () {
    const running = yield* Nightshift.start(["serve", "--port", "0", ...args], { cwd, env: { ...credentials, ...env } })
    const [, url = ""] = yield* running.said(/"url":"(http:[^"]+)"/)
    return { ...running, url }
  })

/** Posts an update to a bot and returns the answer. */
export const deliver = (url: string, slug: string, update: unknown, secret: string) =>
  Effect.promise(async () => {
    const response = await fetch(`${url}/hooks/telegram/${slug}`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-telegram-bot-api-secret-token": secret },
      body: JSON.stringify(update)
    })
    const text = await response.text()
    return { status: response.status, text, json: text.startsWith("{") ? JSON.parse(text) : undefined }
  })

export const get = (url: string, headers: Readonly<Record<string, string>> = {}) =>
  Effect.promise(async () => {
    const response = await fetch(url, { headers })
    return { status: response.status, text: await response.text() }
  })
