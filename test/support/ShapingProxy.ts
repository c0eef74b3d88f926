import type { Socket } from "node:net"
import { Effect, type Redacted, type Scope } from "effect"
import * as LosingProxy from "./LosingProxy.js"

/** What the proxy does to traffic. Rules apply to open connections at once. */
export interface Shape {
  /** Delay of every message in each direction. */
  readonly delayMillis?: number
  /** Messages arrive in pieces: their first hundred bytes one by one, the rest 64 at a time. */
  readonly sliced?: boolean
  /** Each connection is reset after a number of messages that grows from connection to connection, from 1 to this. */
  readonly resetsUpTo?: number
  /** Open connections are reset and new ones refused. */
  readonly refuses?: boolean
  /** A message that contains this text is forwarded, and its connection closed before the reply returns. */
  readonly losesReplyTo?: string
  /** A message that contains this text does not arrive, and neither does anything its connection sends after it. */
  readonly swallows?: string
  /** The reply to a message that contains this text arrives this much later. */
  readonly delaysReplyTo?: { readonly text: string; readonly millis: number }
}

export interface ShapingProxy {
  readonly url: Redacted.Redacted
  readonly shape: (shape: Shape) => Effect.Effect<void>
  /** How many connections it reset or swallowed, and how many replies it lost. */
  readonly harmed: () => number
  /** How many messages it delayed or sliced. */
  readonly shaped: () => number
}

const singles = 100
const piece = 64

const writeSliced = (to: Socket, bytes: Buffer) => {
  to.setNoDelay(true)
  for (let at = 0; at < Math.min(singles, bytes.length); at += 1) to.write(bytes.subarray(at, at + 1))
  for (let at = singles; at < bytes.length; at += piece) to.write(bytes.subarray(at, at + piece))
}

/** A TCP proxy in front of a server that shapes traffic as the test says. */
export const make = (
  target: Redacted.Redacted,
  at?: { readonly host: string; readonly port: number }
): Effect.Effect<ShapingProxy, never, Scope.Scope> =>
  Effect.gen(function* () {
    let current: Shape = {}
    let connections = 0
    let harmed = 0
    let shaped = 0
    const open = new Set<() => void>()
    const url = yield* LosingProxy.listen(
      target,
      (client, server) => {
        connections += 1
        const number = connections
        let messages = 0
        let replyDelay = 0
        let isSwallowed = false
        const reset = () => {
          harmed += 1
          client.resetAndDestroy()
          server.destroy()
        }
        open.add(reset)
        if (current.refuses === true) return reset()
        const forward = (to: Socket, bytes: Buffer, delay = 0) => {
          const { delayMillis = 0, sliced = false } = current
          if (sliced || delayMillis + delay > 0) shaped += 1
          const write = () => (sliced ? writeSliced(to, bytes) : void to.write(bytes))
          if (delayMillis + delay === 0) write()
          else setTimeout(write, delayMillis + delay)
        }
        client.on("data", (bytes) => {
          messages += 1
          if (isSwallowed) return undefined
          const { delaysReplyTo, losesReplyTo, resetsUpTo = 0, swallows } = current
          if (swallows !== undefined && bytes.includes(swallows)) {
            harmed += 1
            isSwallowed = true
            return undefined
          }
          replyDelay = delaysReplyTo !== undefined && bytes.includes(delaysReplyTo.text) ? delaysReplyTo.millis : 0
          if (losesReplyTo !== undefined && bytes.includes(losesReplyTo)) {
            harmed += 1
            server.removeAllListeners("data")
            return void server.end(bytes, () => client.resetAndDestroy())
          }
          forward(server, bytes)
          if (resetsUpTo > 0 && messages > number % resetsUpTo) reset()
          return undefined
        })
        server.on("data", (bytes) => forward(client, bytes, replyDelay))
        client.on("close", () => {
          open.delete(reset)
          server.end()
        })
        server.on("close", () => client.destroy())
        return undefined
      },
      at
    )
    return {
      url,
      shape: (shape) =>
        Effect.sync(() => {
          current = shape
          if (shape.refuses === true) for (const reset of open) reset()
        }),
      harmed: () => harmed,
      shaped: () => shaped
    }
  })
