import * as Http from "node:http"
import { Effect, type Scope } from "effect"
import { TestServer } from "./TestServer.js"

export interface Event {
  readonly name: string
  readonly id: string
  readonly data: Readonly<Record<string, unknown>>
}

export interface Listener {
  readonly status: number
  readonly headers: Http.IncomingHttpHeaders
  /** The first past or future event of this name that matches. */
  readonly heard: (name: string, wanted?: (data: Event["data"]) => boolean) => Effect.Effect<Event>
  /** Waits until the stream is over. */
  readonly ended: Effect.Effect<void>
  /** All events so far. */
  readonly events: ReadonlyArray<Event>
  readonly pause: () => void
  readonly resume: () => void
  readonly leave: () => void
}

const parse = (block: string): Event | undefined => {
  const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1]
  const data = field("data")
  return data === undefined
    ? undefined
    : { name: field("event") ?? "message", id: field("id") ?? "", data: JSON.parse(data) }
}

/** Opens a stream of server-sent events. */
export const listen = (
  path: string,
  credentials: Http.OutgoingHttpHeaders
): Effect.Effect<Listener, never, TestServer | Scope.Scope> =>
  Effect.gen(function* () {
    const { port } = yield* TestServer
    const events: Array<Event> = []
    const waiting = new Set<() => void>()
    let text = ""
    let over = false
    const tell = () => [...waiting].forEach((look) => void look())
    const response = yield* Effect.acquireRelease(
      Effect.async<Http.IncomingMessage>((resume) => {
        const headers = { ...credentials, accept: "text/event-stream" }
        Http.get({ host: "127.0.0.1", port, path, headers }, (answer) => resume(Effect.succeed(answer)))
      }),
      (answer) => Effect.sync(() => answer.destroy())
    )
    response.on("data", (chunk) => {
      text += chunk
      const blocks = text.split("\n\n")
      text = blocks.pop() ?? ""
      events.push(...blocks.flatMap((block) => parse(block) ?? []))
      tell()
    })
    const end = () => {
      over = true
      tell()
    }
    response.on("end", end).on("close", end).on("error", end)
    const until = <A>(found: () => A | undefined) =>
      Effect.async<A>((resume) => {
        const look = () => {
          const value = found()
          if (value === undefined) return
          waiting.delete(look)
          resume(Effect.succeed(value))
        }
        waiting.add(look)
        look()
      }).pipe(Effect.timeoutFail({ duration: "20 seconds", onTimeout: () => new Error("nothing heard") }), Effect.orDie)
    return {
      status: response.statusCode ?? 0,
      headers: response.headers,
      heard: (name, wanted = () => true) =>
        until(() => events.find((event) => event.name === name && wanted(event.data))),
      ended: Effect.asVoid(until(() => (over ? true : undefined))),
      events,
      pause: () => void response.pause(),
      resume: () => void response.resume(),
      leave: () => void response.destroy()
    }
  })
