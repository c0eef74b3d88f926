// `npm run test:orders -- --orders 300 --kills 90`: workflows with charges and refunds while processes are killed.
import { runSized } from "./sized.mjs"

runSized({
  command: "npm run test:orders",
  about: "runs orders while processes are killed and orders are cancelled, and checks every charge and refund",
  file: "test/long/Orders.test.ts",
  sizes: {
    orders: { variable: "ORDERS", usual: 300, meaning: "workflow executions to start" },
    kills: { variable: "ORDER_RUN_KILLS", usual: 90, meaning: "kills with -9" },
    seed: { variable: "ORDER_SEED", usual: 1, meaning: "seed of plans and faults" }
  },
  more: `FAULTS_PACE=3       stretches the leases and all time limits, for a busy machine
TEST_DATABASE_URL   a PostgreSQL to use instead of an own one; its user must be allowed to create databases

Prints the faults, then how the orders ended. Exits 1 if a charge or a refund is wrong. See docs/operate/soak.md.
`
})
