import { Effect, Layer, Redacted, Schema } from "effect"
import { Tokens } from "../../src/access/Tokens.js"
import * as TokensMemory from "../../src/access/TokensMemory.js"
import * as TokensPg from "../../src/access/TokensPg.js"
import { Workspace } from "../../src/core/Workspace.js"
import * as Listener from "../../src/database/Listener.js"
import { ApiApp } from "../../src/http/ApiApp.js"
import { UploadsApp } from "../../src/http/UploadsApp.js"
import type { JobDesk } from "../../src/queue/JobDesk.js"
import type { JobSearch } from "../../src/queue/JobSearch.js"
import { Kinds } from "../../src/queue/Kinds.js"
import type { Queue } from "../../src/queue/Queue.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { Transactions } from "../../src/queue/Transactions.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import type { Storage } from "../../src/uploads/Storage.js"
import * as StorageMemory from "../../src/uploads/StorageMemory.js"
import * as StoragePg from "../../src/uploads/StoragePg.js"
import { UploadsConfig } from "../../src/uploads/UploadsConfig.js"
import * as TestDatabase from "../support/TestDatabase.js"
import { Doors, doorsOver } from "./Doors.js"

export const acme = Schema.decodeSync(Workspace)("acme")

type Config = typeof UploadsConfig.Service
type Ports = Queue | JobDesk | JobSearch | Kinds | Transactions | Storage | Tokens

const configured = (changes: Partial<Config>) =>
  Layer.effect(
    UploadsConfig,
    Effect.map(UploadsConfig, (defaults) => ({ ...defaults, ...changes }))
  ).pipe(Layer.provide(UploadsConfig.layerDefault))

const kinds = Layer.effectDiscard(
  Effect.flatMap(Kinds, ({ register }) =>
    register([{ name: "arrived", queue: "files", version: 2, maxAttempts: 3, onDead: undefined }])
  )
)

const over = <R, E>(ports: Layer.Layer<Ports | R, E, UploadsConfig>, changes: Partial<Config>) =>
  doorsOver(Layer.merge(ApiApp.layer, UploadsApp.layer), {}).pipe(
    Layer.provideMerge(Layer.provideMerge(kinds, ports)),
    Layer.provide(configured(changes)),
    Layer.orDie
  )

/** On memory. */
export const layerMemory = (
  changes: Partial<Config> = {},
  storage: Layer.Layer<Storage, never, UploadsConfig> = StorageMemory.layer
) =>
  over(
    Layer.mergeAll(
      Layer.provide(QueueMemory.layer, Wakeups.layer),
      Transactions.layerMemory,
      storage,
      TokensMemory.layer
    ),
    changes
  )

/** On PostgreSQL. */
export const layerPostgres = (changes: Partial<Config> = {}) =>
  over(
    Layer.mergeAll(QueuePg.layer, StoragePg.layer, TokensPg.layer).pipe(
      Layer.provide(Listener.layerDeaf),
      Layer.provideMerge(TestDatabase.layer)
    ),
    changes
  )

export const backends: ReadonlyArray<
  readonly [where: string, layer: (changes?: Partial<Config>) => Layer.Layer<Doors | Ports>]
> = [
  ["memory", (changes) => layerMemory(changes)],
  ["PostgreSQL", (changes) => layerPostgres(changes)]
]

/** A token of a workspace. */
export const tokenFor = (workspace: Workspace = acme) =>
  Effect.gen(function* () {
    const { secret } = yield* Effect.flatMap(Tokens, (tokens) => tokens.create(workspace))
    return Redacted.value(secret)
  })

export interface Part {
  readonly name?: string
  /** As it stands in the header, quotes and all. */
  readonly filename?: string | undefined
  readonly type?: string | undefined
  readonly content: string | Uint8Array
}

export const boundary = "----nightshift-test-boundary"

/** A form as a browser would write it. */
export const form = (parts: ReadonlyArray<Part>): Buffer =>
  Buffer.concat([
    ...parts.flatMap(({ content, filename = "a.txt", name = "files", type = "text/plain" }) => [
      Buffer.from(
        `--${boundary}\r\nContent-Disposition: form-data; name="${name}"; filename="${filename}"\r\nContent-Type: ${type}\r\n\r\n`
      ),
      Buffer.from(content),
      Buffer.from("\r\n")
    ]),
    Buffer.from(`--${boundary}--\r\n`)
  ])

export const formType = { "content-type": `multipart/form-data; boundary=${boundary}` }

/** A client of one workspace. */
export const client = (workspace: Workspace = acme) =>
  Effect.gen(function* () {
    const { ask } = yield* Doors
    const token = yield* tokenFor(workspace)
    const path = `/uploads/${workspace}`
    return {
      token,
      path,
      send: (body: Buffer | ReadonlyArray<Buffer>) => ask("POST", path, { token, body, headers: formType }),
      upload: (...parts: ReadonlyArray<Part>) => ask("POST", path, { token, body: form(parts), headers: formType }),
      list: ask("GET", path, { token }),
      content: (id: string, headers: Record<string, string> = {}) =>
        ask("GET", `${path}/${id}/content`, { token, headers }),
      ack: (id: string) => ask("POST", `${path}/${id}/ack`, { token })
    }
  })

/** The ids that an upload was answered with. */
export const idsOf = (answer: { readonly json: unknown }): ReadonlyArray<string> => {
  const { files } = answer.json as { readonly files: ReadonlyArray<{ readonly id: string }> }
  return files.map(({ id }) => id)
}
