import { Kysely, PostgresDialect } from "kysely"
import { connect, worker } from "nightshift/client"
import pg from "pg"
import { createApp, type Database } from "./app.js"
import { resizeImage } from "./jobs.js"

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
// Without a listener, a lost connection of the pool ends the process.
pool.on("error", (error) => console.error("an idle connection was lost:", error.message))
await pool.query("create table if not exists images (id serial primary key, url text not null)")
const db = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) })
const shift = await connect(process.env.DATABASE_URL)

// Small services run their jobs in the web process, on the connections of the same shift.
const running = await worker(shift, {
  handlers: [
    resizeImage.handle(async ({ imageId, width }, { progress }) => {
      await progress({ step: "resizing", imageId })
      return { bytes: width * width }
    })
  ],
  queues: { images: 4 }
})

const app = createApp(db, shift)
app.addHook("onClose", async () => {
  await running.stop()
  await shift.close()
  await db.destroy()
})
console.log("listening on", await app.listen({ port: Number(process.env.PORT ?? 3000) }))
for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => void app.close())
