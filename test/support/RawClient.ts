import { connect, type Socket } from "node:net"
import { Effect, type Scope } from "effect"

/** A client that can misbehave: half a request, a wrong length, silence. */
export interface RawClient {
  /** Sends, and waits until the kernel has accepted the data; returns whether it did. */
  readonly send: (data: string | Buffer) => Effect.Effect<boolean>
  /** Waits until the received text matches. Null when the connection ends before it does. */
  readonly said: (pattern: RegExp) => Effect.Effect<RegExpExecArray | null>
  /** Waits until the server has closed the connection. */
  readonly closed: Effect.Effect<void>
  /** Resets the connection. */
  readonly vanish: Effect.Effect<void>
  /** Stops reading. */
  readonly ignore: Effect.Effect<void>
  /** Reads until the server closes the connection; returns everything received. */
  readonly readOut: Effect.Effect<string>
}

const open = (port: number): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => resolve(socket))
    socket.once("error", reject)
  })

const clientOf = (socket: Socket): RawClient => {
  let heard = ""
  let over = false
  const listeners = new Set<() => void>()
  const tell = () => {
    for (const listener of listeners) listener()
  }
  socket.on("error", () => {})
  socket.on("data", (chunk) => {
    heard += chunk.toString("latin1")
    tell()
  })
  socket.on("close", () => {
    over = true
    tell()
  })
  const when = <A>(look: () => { readonly value: A } | undefined): Effect.Effect<A> =>
    Effect.async((resume) => {
      const listener = () => {
        const found = look()
        if (found === undefined) return
        listeners.delete(listener)
        resume(Effect.succeed(found.value))
      }
      listeners.add(listener)
      listener()
    })
  return {
    send: (data) =>
      Effect.async((resume) => {
        if (over) return resume(Effect.succeed(false))
        const gone = () => resume(Effect.succeed(false))
        socket.once("close", gone)
        socket.write(data, (error) => {
          socket.off("close", gone)
          resume(Effect.succeed(error === undefined || error === null))
        })
      }),
    said: (pattern) =>
      when(() => {
        const match = pattern.exec(heard)
        return match !== null || over ? { value: match } : undefined
      }),
    readOut: Effect.suspend(() => {
      socket.resume()
      return when(() => (over ? { value: heard } : undefined))
    }),
    closed: when(() => (over ? { value: undefined } : undefined)),
    vanish: Effect.sync(() => socket.resetAndDestroy()).pipe(Effect.asVoid),
    ignore: Effect.sync(() => socket.pause()).pipe(Effect.asVoid)
  }
}

/** Connects; the connection ends with the Scope. */
export const make = (port: number): Effect.Effect<RawClient, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(() => open(port)),
      (socket) => Effect.sync(() => socket.destroy())
    ),
    clientOf
  )
