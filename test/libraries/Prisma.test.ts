import { Effect, Exit, Scope } from "effect"
import { type Handler, type Job, type Shift, TransactionError, worker } from "nightshift/client"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { useDatabase } from "../client/ClientDatabase.js"
import * as Nightshift from "../support/Nightshift.js"
import * as PrismaProject from "./PrismaProject.js"

interface Orders {
  readonly placeOrder: (id: string) => Promise<void>
  readonly prisma: PrismaProject.PrismaClient & {
    readonly order: { readonly findMany: () => Promise<ReadonlyArray<{ readonly id: string; readonly paid: boolean }>> }
    readonly invoice: { readonly findMany: () => Promise<ReadonlyArray<object>> }
  }
  readonly shift: Shift
  readonly ship: Job<{ order: string }>
}

interface Handlers {
  readonly pay: Job<{ order: string }>
  readonly invoice: Job<{ order: string; cents: number }>
  readonly handlers: ReadonlyArray<Handler>
}

describe("the recipe for Prisma", () => {
  const database = useDatabase()
  const before = process.env.DATABASE_URL
  let scope: Scope.CloseableScope
  let orders: Orders
  let written: Handlers

  beforeAll(async () => {
    // As `prisma migrate` writes them.
    await database.pool().query(
      `create table "Order" ("id" text primary key, "paid" boolean not null default false);
       create table "Invoice" ("job" text primary key, "order" text not null, "cents" integer not null)`
    )
    process.env.DATABASE_URL = database.url()
    scope = await Effect.runPromise(Scope.make())
    const load = await PrismaProject.make(await Effect.runPromise(Scope.extend(Nightshift.folder, scope)))
    orders = await load<Orders>("orders.ts")
    written = await load<Handlers>("handlers.ts")
  })
  afterAll(async () => {
    await orders?.shift.close()
    await orders?.prisma.$disconnect()
    await Effect.runPromise(Scope.close(scope, Exit.void))
    if (before === undefined) delete process.env.DATABASE_URL
    else process.env.DATABASE_URL = before
  })

  it("stores an order and its job together, or neither", async () => {
    await orders.placeOrder("A-17")
    expect(await orders.prisma.order.findMany()).toEqual([{ id: "A-17", paid: false }])
    expect(await database.count("ship")).toBe(1)
    await expect(orders.placeOrder("A-17")).rejects.toMatchObject({ code: "P2002" })
    expect(await database.count("ship")).toBe(1)
  })

  it("refuses the client itself", async () => {
    const outside = orders.shift.enqueue(orders.ship, { order: "A-18" }, { tx: orders.prisma })
    await expect(outside).rejects.toMatchObject({ name: TransactionError.name })
    expect(await database.count("ship")).toBe(1)
  })

  it("writes in handlers, once even if the job runs again", async () => {
    const { prisma, shift } = orders
    await using _ = await worker(shift, { handlers: written.handlers })
    const { id: paid } = await shift.enqueue(written.pay, { order: "A-17" })
    const { id: job } = await shift.enqueue(written.invoice, { order: "A-17", cents: 1250 })
    await shift.result(paid, { timeout: "2m" })
    await shift.result(job, { timeout: "2m" })
    expect(await prisma.order.findMany()).toEqual([{ id: "A-17", paid: true }])
    expect(await prisma.invoice.findMany()).toEqual([{ job, order: "A-17", cents: 1250 }])
    await shift.requeue(job)
    await shift.result(job, { timeout: "2m" })
    expect((await shift.job(job)).attempt).toBe(1)
    expect(await prisma.invoice.findMany()).toHaveLength(1)
  })
})
