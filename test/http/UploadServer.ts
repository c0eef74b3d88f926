import { Effect, Layer, Redacted, Schema } from "effect"
import { Tokens } from "../../src/access/Tokens.js"
import * as TokensPg from "../../src/access/TokensPg.js"
import { Workspace } from "../../src/core/Ids.js"
import { UploadsApp } from "../../src/http/uploads/UploadsApp.js"
import { Kinds } from "../../src/queue/Kinds.js"
import type { Queue } from "../../src/queue/Queue.js"
import type { JobSearch } from "../../src/queue/search/JobSearch.js"
import type { Transactions } from "../../src/queue/Transactions.js"
import type { Storage } from "../../src/uploads/Storage.js"
import * as StorageMemory from "../../src/uploads/StorageMemory.js"
import * as StoragePg from "../../src/uploads/StoragePg.js"
import { UploadsConfig } from "../../src/uploads/UploadsConfig.js"
import * as AccessMemory from "../support/AccessMemory.js"
import { layerOverAll, portsMemory, portsPostgres, TestServer } from "./TestServer.js"

export const acme = Schema.decodeSync(Workspace)("acme")

type Config = typeof UploadsConfig.Service
type Ports = Queue | JobSearch | Kinds | Transactions | Storage | Tokens

const configured = (changes: Partial<Config>) =>
  Layer.effect(
    UploadsConfig,
    Effect.map(UploadsConfig, (defaults) => ({ ...defaults, ...changes }))
  ).pipe(Layer.provide(UploadsConfig.layerDefault))

const kinds = Layer.effectDiscard(
  Effect.flatMap(Kinds, ({ register }) =>
    register([{ name: "arrived", queue: "files", version: 2, attempts: 3, onDead: undefined }])
  )
)

const door = (changes: Partial<Config>) => Layer.provide(UploadsApp.layer, configured(changes))

/** On memory. */
export const layerMemory = (
  changes: Partial<Config> = {},
  storage: Layer.Layer<Storage, never, UploadsConfig> = StorageMemory.layer
) =>
  layerOverAll(Layer.provideMerge(kinds, portsMemory), {
    ports: Layer.merge(Layer.provide(storage, configured(changes)), AccessMemory.tokens),
    door: door(changes)
  }).pipe(Layer.orDie)

/** On PostgreSQL. */
export const layerPostgres = (changes: Partial<Config> = {}) =>
  layerOverAll(Layer.provideMerge(kinds, portsPostgres), {
    ports: Layer.merge(Layer.provide(StoragePg.layer, configured(changes)), TokensPg.layer),
    door: door(changes)
  }).pipe(Layer.orDie)

export const backends: ReadonlyArray<
  readonly [where: string, layer: (changes?: Partial<Config>) => Layer.Layer<TestServer | Ports>]
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
  /** As written in the header, quotes included. */
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
    const { ask } = yield* TestServer
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
      head: (id: string, headers: Record<string, string>) => ask("HEAD", `${path}/${id}/content`, { token, headers }),
      ack: (id: string) => ask("POST", `${path}/${id}/ack`, { token })
    }
  })

/** Ids in the answer to an upload. */
export const idsOf = (answer: { readonly json: unknown }): ReadonlyArray<string> => {
  const { files } = answer.json as { readonly files: ReadonlyArray<{ readonly id: string }> }
  return files.map(({ id }) => id)
}
