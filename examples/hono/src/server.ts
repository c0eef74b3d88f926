import { serve } from "@hono/node-server"
import { connect, worker } from "nightshift/client"
import { createApp } from "./app.js"
import { remind } from "./jobs.js"

const shift = await connect(process.env.DATABASE_URL)
await worker(shift, { handlers: [remind.handle(async ({ cart, email }) => console.log(`mail to ${email}: ${cart}`))] })
const options = { fetch: createApp(shift).fetch, port: Number(process.env.PORT ?? 3000) }
const server = serve(options, ({ port }) => console.log(`listening on http://localhost:${port}`))
for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => server.close(() => void shift.close()))
