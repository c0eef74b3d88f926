import { serve } from "@hono/node-server"
import { connect, worker } from "nightshift/client"
import { createApp } from "./app.js"
import { remind } from "./jobs.js"

const shift = await connect(process.env.DATABASE_URL)
await worker(shift, { handlers: [remind.handle(async ({ cart, email }) => console.log(`mail to ${email}: ${cart}`))] })
const server = serve({ fetch: createApp(shift).fetch, port: Number(process.env.PORT ?? 3000) })
for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => server.close(() => void shift.close()))
