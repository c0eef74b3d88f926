import { PrismaPg } from "@prisma/adapter-pg"
import { sql as drizzleSql } from "drizzle-orm"
import { drizzle } from "drizzle-orm/node-postgres"
import { pgTable, text } from "drizzle-orm/pg-core"
import { drizzle as drizzleOnPostgresJs } from "drizzle-orm/postgres-js"
import { Effect, Exit, Scope } from "effect"
import Knex from "knex"
import { CamelCasePlugin, Kysely, sql as kyselySql, PostgresDialect } from "kysely"
import pg from "pg"
import postgres from "postgres"
import { DataSource } from "typeorm"
import { handlerCase, insert, type Library, transactionCases } from "../client/TransactionCases.js"
import * as Nightshift from "../support/Nightshift.js"
import * as PrismaProject from "./PrismaProject.js"

const drizzleLibrary = (url: string): Library => {
  const pool = new pg.Pool({ connectionString: url, max: 2 })
  pool.on("error", () => {})
  pool.on("connect", (client) => client.on("error", () => {}))
  const db = drizzle(pool)
  return {
    name: "Drizzle",
    transaction: (body) =>
      db.transaction((tx) => body(tx, (order) => tx.execute(drizzleSql`insert into orders (id) values (${order})`))),
    savepoint: (body) => db.transaction((tx) => tx.transaction((inner) => body(inner)).catch(() => {})),
    outside: () => db,
    close: () => pool.end()
  }
}

const drizzlePostgresJsLibrary = (url: string): Library => {
  const client = postgres(url, { max: 2, onnotice: () => {} })
  const db = drizzleOnPostgresJs(client)
  return {
    name: "Drizzle on postgres.js",
    transaction: (body) =>
      db.transaction((tx) => body(tx, (order) => tx.execute(drizzleSql`insert into orders (id) values (${order})`))),
    savepoint: (body) => db.transaction((tx) => tx.transaction((inner) => body(inner)).catch(() => {})),
    outside: () => db,
    endsWithConnection: true,
    close: () => client.end({ timeout: 0 })
  }
}

const kyselyLibrary = (url: string): Library => {
  const pool = new pg.Pool({ connectionString: url, max: 2 })
  pool.on("error", () => {})
  pool.on("connect", (client) => client.on("error", () => {}))
  const db = new Kysely<Record<string, never>>({
    dialect: new PostgresDialect({ pool }),
    plugins: [new CamelCasePlugin()]
  })
  return {
    name: "Kysely",
    transaction: (body) =>
      db
        .transaction()
        .execute((trx) => body(trx, (order) => kyselySql`insert into orders (id) values (${order})`.execute(trx))),
    savepoint: async (body) => {
      const trx = await db.startTransaction().execute()
      const one = await trx.savepoint("one").execute()
      await body(one).catch(() => one.rollbackToSavepoint("one").execute())
      await trx.commit().execute()
    },
    outside: () => db,
    close: () => db.destroy()
  }
}

const knexLibrary = (url: string): Library => {
  const db = Knex({ client: "pg", connection: url, pool: { min: 0, max: 2 } })
  return {
    name: "Knex",
    transaction: (body) => db.transaction((trx) => body(trx, (order) => trx("orders").insert({ id: order }).then())),
    savepoint: (body) => db.transaction((trx) => trx.transaction((inner) => body(inner)).catch(() => {})),
    outside: () => db,
    close: () => db.destroy()
  }
}

const postgresJsLibrary = (url: string): Library => {
  const sql = postgres(url, { max: 2, onnotice: () => {} })
  return {
    name: "postgres.js",
    transaction: async (body) => {
      await sql.begin((tx) => body(tx, (order) => tx`insert into orders (id) values (${order})`))
    },
    savepoint: async (body) => {
      await sql.begin((tx) => tx.savepoint((inner) => body(inner)).catch(() => {}))
    },
    outside: () => sql,
    endsWithConnection: true,
    close: () => sql.end({ timeout: 0 })
  }
}

const typeormLibrary = async (url: string): Promise<Library> => {
  const source = await new DataSource({ type: "postgres", url: url, poolSize: 2 }).initialize()
  return {
    name: "TypeORM",
    transaction: (body) => source.transaction((manager) => body(manager, (order) => manager.query(insert, [order]))),
    savepoint: (body) => source.transaction((manager) => manager.transaction((inner) => body(inner)).catch(() => {})),
    outside: () => source.manager,
    close: () => source.destroy()
  }
}

const prismaLibrary = async (url: string): Promise<Library> => {
  const scope = await Effect.runPromise(Scope.make())
  const load = await PrismaProject.make(await Effect.runPromise(Scope.extend(Nightshift.folder, scope)))
  const { PrismaClient } = await load<PrismaProject.Generated>("generated/prisma/client.ts")
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url, max: 2 }) })
  return {
    name: "Prisma",
    transaction: (body) => prisma.$transaction((tx) => body(tx, (order) => tx.$executeRawUnsafe(insert, order))),
    savepoint: (body) =>
      prisma.$transaction(async (tx) => {
        await tx.$executeRawUnsafe("savepoint one")
        await body(tx).catch(() => tx.$executeRawUnsafe("rollback to savepoint one"))
      }),
    outside: () => prisma,
    close: async () => {
      await prisma.$disconnect()
      await Effect.runPromise(Scope.close(scope, Exit.void))
    }
  }
}

transactionCases({
  Prisma: prismaLibrary,
  Drizzle: drizzleLibrary,
  "Drizzle on postgres.js": drizzlePostgresJsLibrary,
  Kysely: kyselyLibrary,
  Knex: knexLibrary,
  "postgres.js": postgresJsLibrary,
  TypeORM: typeormLibrary
})

const credits = pgTable("credit", { id: text().primaryKey() })

// Libraries that can adopt a pg client.
handlerCase({
  drizzle: async (tx, id) => drizzle(tx).insert(credits).values({ id }),
  kysely: (tx, id) => {
    const pool = {
      connect: async () => ({ query: tx.query.bind(tx), release: () => {} }) as never,
      end: async () => {}
    }
    return new Kysely<{ credit: { id: string } }>({ dialect: new PostgresDialect({ pool }) })
      .insertInto("credit")
      .values({ id })
      .execute()
  }
})
