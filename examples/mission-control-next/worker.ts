import { connect, worker } from "nightshift/client"
import { greet } from "./lib/jobs"

const shift = await connect(process.env.DATABASE_URL)
await worker(shift, { handlers: [greet.handle(({ name }) => console.log(`hello ${name}`))] })
for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => void shift.close())
