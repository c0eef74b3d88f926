import { connect, worker } from "nightshift/client"
import { welcome } from "./lib/jobs"

// A serverless platform ends a function after its response, so jobs run in a separate process.
const shift = await connect(process.env.DATABASE_URL)
await worker(shift, {
  handlers: [welcome.handle(async ({ email, plan }) => console.log(`welcome ${email} to the ${plan} plan`))]
})
for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => void shift.close())
