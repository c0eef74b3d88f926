import { spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import * as FetchHttpClient from "@effect/platform/FetchHttpClient"
import * as HttpClient from "@effect/platform/HttpClient"
import * as HttpClientRequest from "@effect/platform/HttpClientRequest"
import { Effect, type Scope } from "effect"
import { transformSync } from "esbuild"
import { root } from "../support/Nightshift.js"

/** A generated call that decodes answers by the document's own schemas. */
export type Call = (...given: ReadonlyArray<unknown>) => Effect.Effect<unknown, unknown>

/** The generator's name for an operation. */
export const nameOf = (operationId: string): string =>
  operationId.replace(/\.(.)/g, (_, letter: string) => letter.toUpperCase())

const generate = (folder: string, document: string): string => {
  const spec = join(folder, "openapi.json")
  writeFileSync(spec, document)
  const generator = join(root, "node_modules", "@tim-smart", "openapi-gen", "main.js")
  const { status, stderr, stdout } = spawnSync(process.execPath, [generator, "--spec", spec, "--name", "Client"], {
    encoding: "utf8"
  })
  if (status !== 0) throw new Error(`The document makes no client: ${stderr}`)
  const file = join(folder, "client.mjs")
  writeFileSync(file, transformSync(stdout, { loader: "ts", format: "esm" }).code)
  return file
}

/** Below node_modules, where its imports resolve. */
const workshop: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => {
    const cache = join(root, "node_modules", ".cache")
    mkdirSync(cache, { recursive: true })
    return mkdtempSync(join(cache, "nightshift-client-"))
  }),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

/** A client generated from the document alone. */
export const make = (
  document: string,
  url: string,
  token: string
): Effect.Effect<(name: string) => Call, never, Scope.Scope> =>
  Effect.gen(function* () {
    const file = generate(yield* workshop, document)
    const generated: { make: (client: HttpClient.HttpClient) => Readonly<Record<string, Call>> } =
      yield* Effect.promise(() => import(/* @vite-ignore */ pathToFileURL(file).href))
    const http = HttpClient.mapRequest(yield* HttpClient.HttpClient, (request) =>
      request.pipe(HttpClientRequest.prependUrl(url), HttpClientRequest.bearerToken(token))
    )
    const client = generated.make(http)
    return (name: string) => client[name] ?? (() => Effect.dieMessage(`The document has no ${name}.`))
  }).pipe(Effect.provide(FetchHttpClient.layer))
