import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net"
import { Effect, Redacted, type Scope } from "effect"

/** Listens on loopback until the Scope closes, on a free port unless one is given; returns the target's url through it. */
export const listen = (
  target: Redacted.Redacted,
  onConnection: (client: Socket, server: Socket) => void,
  at: { readonly host: string; readonly port: number } = { host: "127.0.0.1", port: 0 }
): Effect.Effect<Redacted.Redacted, never, Scope.Scope> =>
  Effect.gen(function* () {
    const url = new URL(Redacted.value(target))
    const { hostname, port } = url
    const sockets = new Set<Socket>()
    const proxy = yield* Effect.acquireRelease(
      Effect.async<Server>((resume) => {
        const listening = createServer({ allowHalfOpen: true }, (client) => {
          const server = connect(Number(port), hostname)
          for (const end of [client, server]) {
            sockets.add(end)
            end.on("error", () => {})
            end.on("close", () => sockets.delete(end))
          }
          onConnection(client, server)
        }).listen(at.port, at.host, () => resume(Effect.succeed(listening)))
      }),
      (listening) =>
        Effect.sync(() => {
          for (const socket of sockets) socket.destroy()
          listening.close()
        })
    )
    url.host = `${at.host}:${(proxy.address() as AddressInfo).port}`
    return Redacted.make(url.href)
  })

/**
 * A proxy that forwards a message containing the word, then closes before the answer returns. It does so this many
 * times; later traffic passes in both directions.
 */
export const open = (target: Redacted.Redacted, word: string, times = Number.POSITIVE_INFINITY) => {
  let left = times
  return listen(target, (client, server) => {
    server.pipe(client)
    client.on("close", () => server.end())
    client.on("data", (bytes) => {
      if (left === 0 || !bytes.includes(word)) return server.write(bytes)
      left -= 1
      server.unpipe(client)
      return server.end(bytes, () => client.destroy())
    })
  })
}

/** What happens to a message: with `hold` its reply waits for `release`; `die` closes all connections and refuses new ones. */
type Fate = "pass" | "hold" | "die"

/** A server that can go away. */
export interface Mortal {
  readonly url: Redacted.Redacted
  /** How many of the fates no message has had yet. */
  readonly left: () => number
  /** Whether the reply to a message with the fate `hold` has arrived. */
  readonly isHeld: () => boolean
  /** Forwards the held reply. */
  readonly release: Effect.Effect<void>
  readonly die: Effect.Effect<void>
}

/** The messages that have the word get the fates, in order. All messages arrive, until it dies. */
export const mortal = (
  target: Redacted.Redacted,
  word: string,
  ...fates: ReadonlyArray<Fate>
): Effect.Effect<Mortal, never, Scope.Scope> =>
  Effect.gen(function* () {
    const clients = new Set<Socket>()
    let [met, isDead, isReleased] = [0, false, false]
    const held: Array<() => void> = []
    const die = () => {
      isDead = true
      for (const client of clients) client.destroy()
    }
    const url = yield* listen(target, (client, server) => {
      if (isDead) return void client.destroy()
      clients.add(client)
      let holds = false
      server.on("data", (bytes) => {
        if (holds && !isReleased) held.push(() => void client.write(bytes))
        else client.write(bytes)
      })
      client.on("close", () => server.end())
      client.on("data", (bytes) => {
        const fate = met < fates.length && bytes.includes(word) ? fates[met++] : "pass"
        holds = fate === "hold"
        server.write(bytes)
        if (fate === "die") die()
      })
    })
    return {
      url,
      left: () => fates.length - met,
      isHeld: () => held.length > 0,
      release: Effect.sync(() => {
        isReleased = true
        for (const write of held) write()
      }),
      die: Effect.sync(die)
    }
  })

/** A middlebox that can drop connections silently: it stops forwarding and closes none. */
export interface Stalling {
  readonly url: Redacted.Redacted
  /**
   * `replies`: the client's messages still arrive. `requests`: the server's messages still arrive. New connections work,
   * unless `new` is set.
   */
  readonly stall: (options?: {
    readonly replies?: boolean
    readonly requests?: boolean
    readonly new?: boolean
  }) => Effect.Effect<void>
  /** How many messages it did not forward. */
  readonly held: () => number
  /** New connections work again; stalled ones stay lost. */
  readonly heal: Effect.Effect<void>
  /** Closes the server's ends of stalled connections, as its TCP keepalive does after a while. */
  readonly expire: Effect.Effect<void>
}

export const stalling = (target: Redacted.Redacted): Effect.Effect<Stalling, never, Scope.Scope> =>
  Effect.gen(function* () {
    const state = { generation: 0, replies: false, requests: false, new: false }
    const ends = new Map<Socket, () => boolean>()
    let held = 0
    const url = yield* listen(target, (client, server) => {
      const born = state.generation
      const isStalled = () => born < state.generation || state.new
      ends.set(server, isStalled)
      client.on("data", (bytes) => {
        if (!isStalled() || state.replies) server.write(bytes)
        else held += 1
      })
      server.on("data", (bytes) => {
        if (!isStalled() || state.requests) client.write(bytes)
        else held += 1
      })
      client.on("close", () => isStalled() || server.destroy())
      server.on("close", () => isStalled() || client.destroy())
    })
    return {
      url,
      stall: (options = {}) =>
        Effect.sync(() => {
          state.generation += 1
          state.replies = options.replies ?? false
          state.requests = options.requests ?? false
          state.new = options.new ?? false
        }),
      held: () => held,
      heal: Effect.sync(() => {
        state.new = false
      }),
      expire: Effect.sync(() => {
        for (const [server, isStalled] of ends) if (isStalled()) server.destroy()
      })
    }
  })
