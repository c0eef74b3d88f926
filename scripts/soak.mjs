// `npm run soak -- --minutes 120`: a mixed load on real processes that are killed, with a ledger outside the database.
import { runSized } from "./sized.mjs"

runSized({
  command: "npm run soak",
  about: "runs a mixed load while processes are killed, and checks that nothing is lost or grows",
  file: "test/long/Soak.test.ts",
  // Callers wait longer for an answer than in the fault cases.
  env: { FAULTS_PACE: "4" },
  sizes: {
    minutes: {
      variable: "SOAK_MINUTES",
      usual: 120,
      meaning: "how long the load lasts; curves are judged from 20 minutes on"
    },
    rate: { variable: "SOAK_RATE", usual: 20, meaning: "jobs per second, of all kinds together" },
    seed: { variable: "SOAK_SEED", usual: 1, meaning: "seed of the load and of the faults" }
  },
  more: `TEST_DATABASE_URL   a PostgreSQL to use instead of an own one; its user must be allowed to create databases

Prints a line per sample, then whether each curve is flat, and writes everything to results/. Exits 1 if a promise was
broken or a curve is not flat. See docs/operate/soak.md.
`
})
