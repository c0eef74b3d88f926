import { connect, worker } from "nightshift/client"
import pg from "pg"
import { type Bank, makeOrder, shipment } from "./order.js"

// Runs orders until it is stopped. Connects to DATABASE_URL.

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
// Without a listener, a lost connection of the pool ends the process.
pool.on("error", (error) => console.error("an idle connection was lost:", error.message))
await pool.query("create table if not exists booking (id text primary key, payment text not null)")
await pool.query(
  "create table if not exists payment (key text primary key, cents int not null, refunded boolean default false)"
)

/** A bank in a table. Like a real one, it ignores a repeated key. */
const bank: Bank = {
  charge: async (key, { cents }) => {
    await pool.query("insert into payment (key, cents) values ($1, $2) on conflict do nothing", [key, cents])
    return { payment: key }
  },
  refund: async (_, payment) => {
    await pool.query("update payment set refunded = true where key = $1", [payment])
  }
}

const shift = await connect()
const running = await worker(shift, { handlers: [makeOrder(bank), shipment] })
console.log(`orders run in process ${running.pod}`)

process.once("SIGTERM", async () => {
  await running.stop()
  await shift.close()
  await pool.end()
})
