import { integer, pgTable, serial, text } from "drizzle-orm/pg-core"

export const orders = pgTable("orders", {
  id: serial().primaryKey(),
  email: text().notNull(),
  cents: integer().notNull()
})
