import { randomBytes } from "node:crypto"
import { Context, Effect, Exit, Layer, Redacted, Scope } from "effect"
import pg from "pg"
import type { TestProject } from "vitest/node"
import { Database } from "../../src/database/Database.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as EmbeddedPostgres from "../../src/database/embedded/EmbeddedPostgres.js"
import { Migrations } from "../../src/database/Migrations.js"
import * as MemoryFolder from "./MemoryFolder.js"

declare module "vitest" {
  export interface ProvidedContext {
    /** A server on which tests may create databases. */
    readonly serverUrl: string
    /** A migrated database on that server, to be cloned and never connected to. */
    readonly templateDatabase: string
  }
}

const onDatabase = (serverUrl: string, name: string) => {
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}

const administer = async (serverUrl: string, statement: string) => {
  const client = new pg.Client({ connectionString: serverUrl })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

const startServer = Effect.map(Layer.build(EmbeddedPostgres.layerThrowaway), (services) =>
  Redacted.value(Context.get(services, EmbeddedPostgres.EmbeddedPostgres).url)
)

const migrate = (url: string) =>
  Effect.flatMap(Migrations, (migrations) => migrations.migrate).pipe(
    Effect.provide(
      Migrations.layer.pipe(
        Layer.provide(Database.layer),
        Layer.provide(DatabaseUrl.layerOf(Redacted.make(url))),
        Layer.provide(DatabaseConfig.layer)
      )
    )
  )

/** Provides one PostgreSQL for the whole run: that of TEST_DATABASE_URL, or a throwaway one. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const scope = Effect.runSync(Scope.make())
  const serverUrl = process.env.TEST_DATABASE_URL ?? (await Effect.runPromise(Scope.extend(startServer, scope)))
  const template = `nightshift_template_${randomBytes(4).toString("hex")}`
  await administer(serverUrl, `create database ${template}`)
  await Effect.runPromise(migrate(onDatabase(serverUrl, template)))
  project.provide("serverUrl", serverUrl)
  project.provide("templateDatabase", template)
  return async () => {
    await administer(serverUrl, `drop database ${template}`)
    await Effect.runPromise(Scope.close(scope, Exit.void))
    MemoryFolder.remove(process.env.TMPDIR)
  }
}
