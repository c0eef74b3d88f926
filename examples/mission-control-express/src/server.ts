import { connect, worker } from "nightshift/client"
import { createApp } from "./app.js"
import { greet } from "./jobs.js"

const shift = await connect(process.env.DATABASE_URL)
await worker(shift, { handlers: [greet.handle(({ name }) => console.log(`hello ${name}`))] })
const server = createApp(shift).listen(Number(process.env.PORT ?? 3000), () =>
  console.log("listening on", server.address())
)

// Closing the shift ends the live updates of open tabs, for which the server would wait.
for (const signal of ["SIGTERM", "SIGINT"])
  process.once(signal, () => {
    server.close()
    void shift.close()
  })
