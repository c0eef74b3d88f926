import { serve } from "@hono/node-server"
import { connect, worker } from "nightshift/client"
import { createApp } from "./app.js"
import { greet } from "./jobs.js"

const shift = await connect(process.env.DATABASE_URL)
await worker(shift, { handlers: [greet.handle(({ name }) => console.log(`hello ${name}`))] })
const options = { fetch: createApp(shift).fetch, port: Number(process.env.PORT ?? 3000) }
const server = serve(options, ({ port }) => console.log(`listening on http://localhost:${port}`))

// Closing the shift ends the live updates of open tabs, for which the server would wait.
for (const signal of ["SIGTERM", "SIGINT"])
  process.once(signal, () => {
    server.close()
    void shift.close()
  })
