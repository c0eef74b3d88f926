import { connect, worker } from "nightshift/client"
import { handlersWith } from "./handlers.js"

const shift = await connect(process.env.DATABASE_URL)
const running = await worker(shift, {
  handlers: handlersWith({ send: async ({ subject, to }) => console.log(`mail to ${to}: ${subject}`) }),
  queues: { mail: 20 }
})
console.log("the worker serves", running.queues.join(", "))

// Kubernetes, Docker and systemd stop a process with SIGTERM: running jobs get 25 seconds to finish.
for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => void shift.close())
