import { type AddressInfo, createServer, type Server, type Socket } from "node:net"
import { Effect, Redacted, type Scope } from "effect"
import pg from "pg"

// A small pooler in transaction mode: each transaction of a client uses another server connection, in turn. Like
// PgBouncer before 1.21 it does not support prepared statements, drops notifications, returns its own process ids, and
// refuses unknown startup parameters.

const plainParameters = new Set(["user", "database", "application_name", "client_encoding"])

/** Calls back with every whole message of a stream; a client's first message has no type. */
const framed = (isClient: boolean, onMessage: (message: Buffer, type: string) => void) => {
  let rest = Buffer.alloc(0)
  let started = !isClient
  return (bytes: Buffer) => {
    rest = Buffer.concat([rest, bytes])
    for (;;) {
      const header = started ? 1 : 0
      if (rest.length < header + 4) return
      const size = rest.readInt32BE(header) + header
      if (rest.length < size) return
      const message = rest.subarray(0, size)
      rest = rest.subarray(size)
      onMessage(message, started ? String.fromCharCode(message[0] ?? 0) : "startup")
      started = true
    }
  }
}

const message = (type: string, body: Buffer) => {
  const size = Buffer.alloc(4)
  size.writeInt32BE(body.length + 4)
  return Buffer.concat([Buffer.from(type), size, body])
}
const int32 = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(value)
  return bytes
}

const greeting = Buffer.concat([
  message("R", int32(0)),
  message("S", Buffer.from("server_version\0bouncer\0")),
  message("K", Buffer.concat([int32(1_000_000), int32(7)])),
  message("Z", Buffer.from("I"))
])

const refusal = (parameter: string) =>
  message("E", Buffer.from(`SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter: ${parameter}\0\0`))

const parametersOf = (startup: Buffer) =>
  startup
    .subarray(8)
    .toString()
    .split("\0")
    .filter((_, index) => index % 2 === 0)
    .filter((name) => name !== "")

interface Backend {
  readonly socket: Socket
  client: Socket | undefined
}

/** A server connection, taken over once the driver has logged in. */
const openBackend = (url: string, onFree: (backend: Backend) => void) =>
  Effect.acquireRelease(
    Effect.promise(async (): Promise<Backend> => {
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      const { connection } = client as unknown as { connection: { stream: Socket } }
      const socket = connection.stream
      socket.removeAllListeners("data")
      socket.removeAllListeners("close")
      socket.removeAllListeners("error")
      socket.on("error", () => {})
      const backend: Backend = { socket, client: undefined }
      socket.on(
        "data",
        framed(false, (bytes, type) => {
          backend.client?.write(bytes)
          if (type === "Z" && bytes[5] === "I".charCodeAt(0)) onFree(backend)
        })
      )
      return backend
    }),
    ({ socket }) => Effect.sync(() => socket.destroy())
  )

/** Returns the target's url through the pooler. It silently drops the startup parameters in `ignored`. */
export const open = (
  target: Redacted.Redacted,
  options: { readonly backends?: number; readonly ignored?: ReadonlyArray<string> } = {}
): Effect.Effect<Redacted.Redacted, never, Scope.Scope> =>
  Effect.gen(function* () {
    const free: Array<Backend> = []
    const waiting: Array<(backend: Backend) => void> = []
    const release = (backend: Backend) => {
      backend.client = undefined
      free.push(backend)
      const next = waiting.shift()
      if (next !== undefined) next(free.shift() as Backend)
    }
    const backends = yield* Effect.replicateEffect(openBackend(Redacted.value(target), release), options.backends ?? 2)
    free.push(...backends)

    const serve = (client: Socket) => {
      let linked: Backend | undefined
      let asked = false
      const held: Array<Buffer> = []
      client.on("error", () => {})
      const link = (backend: Backend) => {
        backend.client = client
        linked = backend
        asked = false
        for (const bytes of held.splice(0)) backend.socket.write(bytes)
      }
      const onMessage = (bytes: Buffer, type: string) => {
        if (type === "startup") {
          const known = new Set([...plainParameters, ...(options.ignored ?? [])])
          const strange = parametersOf(bytes).find((name) => !known.has(name))
          return strange === undefined ? client.write(greeting) : client.end(refusal(strange))
        }
        if (type === "X") return client.end()
        if (linked?.client === client) return linked.socket.write(bytes)
        held.push(Buffer.from(bytes))
        if (asked) return undefined
        asked = true
        const backend = free.shift()
        return backend === undefined ? void waiting.push(link) : link(backend)
      }
      client.on("data", framed(true, onMessage))
    }

    const proxy = yield* Effect.acquireRelease(
      Effect.async<Server>((resume) => {
        const listening = createServer(serve).listen(0, "127.0.0.1", () => resume(Effect.succeed(listening)))
      }),
      (listening) => Effect.sync(() => void listening.close())
    )
    const url = new URL(Redacted.value(target))
    url.host = `127.0.0.1:${(proxy.address() as AddressInfo).port}`
    return Redacted.make(url.href)
  })
