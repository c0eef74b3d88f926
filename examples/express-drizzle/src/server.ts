import { drizzle } from "drizzle-orm/node-postgres"
import { connect } from "nightshift/client"
import pg from "pg"
import { createApp } from "./app.js"

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
pool.on("error", (error) => console.error("an idle connection was lost:", error.message))
await pool.query("create table if not exists orders (id serial primary key, email text not null, cents int not null)")
const shift = await connect(process.env.DATABASE_URL)
const server = createApp(drizzle(pool), shift).listen(Number(process.env.PORT ?? 3000), () =>
  console.log("listening on", server.address())
)

process.once("SIGTERM", () => {
  server.close(async () => {
    await shift.close()
    await pool.end()
  })
})
