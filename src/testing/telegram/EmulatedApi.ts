import * as Http from "node:http"
import type { AddressInfo } from "node:net"
import { Effect, Predicate, type Scope } from "effect"
import type { BotCall, EmulatedBot } from "./EmulatedBot.js"
import { profileOf, webhookInfo } from "./EmulatedBot.js"
import { answerOf, type EmulatedFault } from "./EmulatedFault.js"

// The Bot API over HTTP.

export interface ApiOptions {
  readonly bot: (token: string) => EmulatedBot | undefined
  /** Returns the fault to inject into a call, if any. */
  readonly faultFor: (call: Omit<BotCall, "done">) => EmulatedFault | undefined
  readonly onCall: (call: BotCall) => void
}

type Parameters = Readonly<Record<string, unknown>>

const parametersIn = (body: string, query: URLSearchParams): Parameters => {
  try {
    const parsed: unknown = body === "" ? {} : JSON.parse(body)
    return { ...Object.fromEntries(query), ...(Predicate.isRecord(parsed) ? parsed : {}) }
  } catch {
    if (!body.startsWith("--")) return Object.fromEntries([...query, ...new URLSearchParams(body)])
    // A multipart form with a file: read its text fields.
    const fields = body.matchAll(/name="([^"]+)"\r\n\r\n([^\r]*)\r\n/g)
    return Object.fromEntries([...query, ...Array.from(fields, ([, name = "", value = ""]) => [name, value])])
  }
}

const setWebhook = (bot: EmulatedBot, parameters: Parameters) => {
  const { allowed_updates: updates, max_connections: most, secret_token: secret, url } = parameters
  bot.webhook =
    typeof url === "string" && url !== ""
      ? {
          urls: [url],
          secret: typeof secret === "string" ? secret : undefined,
          maxConnections: typeof most === "number" ? most : 40,
          updates: Array.isArray(updates) && updates.length > 0 ? updates.map(String) : undefined
        }
      : undefined
  return true
}

/** The message object that Telegram returns for a sent message. */
const sent = (bot: EmulatedBot, { chat_id: id }: Parameters, content: object) => ({
  message_id: bot.nextMessage++,
  date: 1,
  from: profileOf(bot),
  chat: { id, type: "private" },
  ...content
})

/** Returns a method's result, or undefined if the method does not exist. */
const carryOut = (bot: EmulatedBot, method: string, parameters: Parameters): unknown => {
  switch (method.toLowerCase()) {
    case "getme":
      return profileOf(bot)
    case "setwebhook":
      return setWebhook(bot, parameters)
    case "deletewebhook":
      return setWebhook(bot, {})
    case "getwebhookinfo":
      return webhookInfo(bot)
    case "sendmessage":
      return sent(bot, parameters, { text: parameters.text })
    case "sendphoto": {
      const photo = [{ file_id: String(parameters.photo), file_unique_id: "1", width: 1, height: 1 }]
      return sent(bot, parameters, { photo, caption: parameters.caption })
    }
    case "editmessagetext":
      return { ...sent(bot, parameters, { text: parameters.text, edit_date: 1 }), message_id: parameters.message_id }
    case "setmycommands":
      bot.commands = Array.isArray(parameters.commands) ? parameters.commands : []
      return true
    case "getmycommands":
      return bot.commands
    case "sendchataction":
    case "answercallbackquery":
    case "deletemessage":
      return true
    default:
      return undefined
  }
}

const readAll = (request: Http.IncomingMessage, done: (body: string) => void) => {
  const chunks: Array<Buffer> = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => done(Buffer.concat(chunks).toString("utf8")))
}

const respond = (response: Http.ServerResponse, status: number, body: object) =>
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body))

/** Long-polls for updates up to `timeout`. An offset drops all updates before it. */
const getUpdates = (bot: EmulatedBot, { limit, offset, timeout }: Parameters, answer: (updates: object) => void) => {
  for (const update of bot.pending) if (update.update_id < Number(offset ?? 0)) bot.pending.delete(update)
  const found = () =>
    [...bot.pending].sort((a, b) => a.update_id - b.update_id).slice(0, Math.min(100, Number(limit ?? 100)))
  if (bot.pending.size > 0 || Number(timeout ?? 0) <= 0) return answer(found())
  const wake = () => {
    if (bot.polls.delete(wake)) answer(found())
  }
  bot.polls.add(wake)
  AbortSignal.timeout(Number(timeout) * 1000).addEventListener("abort", wake)
}

const handle = (options: ApiOptions, request: Http.IncomingMessage, response: Http.ServerResponse, body: string) => {
  const url = new URL(request.url ?? "/", "http://emulator")
  const [, token = "", method = ""] = /^\/bot([^/]+)\/(\w+)$/.exec(url.pathname) ?? []
  const bot = options.bot(token)
  if (bot === undefined) return respond(response, 401, { ok: false, error_code: 401, description: "Unauthorized" })
  const parameters = parametersIn(body, url.searchParams)
  const call = { token, method, parameters, via: "call" } as const
  const fault = options.faultFor(call)
  options.onCall({ ...call, done: fault === undefined || fault._tag === "Drop" })
  if (fault === undefined && method.toLowerCase() === "getupdates") {
    if (bot.webhook === undefined) {
      return getUpdates(bot, parameters, (result) => void respond(response, 200, { ok: true, result }))
    }
    const description =
      "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete it first"
    return respond(response, 409, { ok: false, error_code: 409, description })
  }
  if (fault === undefined || fault._tag === "Drop") {
    const result = carryOut(bot, method, parameters)
    if (fault !== undefined) return void request.socket.destroy()
    if (result !== undefined) return respond(response, 200, { ok: true, result })
    return respond(response, 404, { ok: false, error_code: 404, description: "Not Found: method not found" })
  }
  const answer = answerOf(fault)
  if (answer !== undefined) respond(response, answer.status, answer.body)
}

/** Serves until the Scope closes. Returns the URL to set as TELEGRAM_API_URL. */
export const serve = (options: ApiOptions): Effect.Effect<string, never, Scope.Scope> =>
  Effect.gen(function* () {
    const server = yield* Effect.acquireRelease(
      Effect.sync(() =>
        Http.createServer((request, response) => readAll(request, (body) => handle(options, request, response, body)))
      ),
      (open) =>
        Effect.async<void>((resume) => {
          open.close(() => resume(Effect.void))
          open.closeAllConnections()
        })
    )
    return yield* Effect.async<string>((resume) => {
      server.listen(0, "127.0.0.1", () => {
        const { port } = server.address() as AddressInfo
        resume(Effect.succeed(`http://127.0.0.1:${port}`))
      })
    })
  })
