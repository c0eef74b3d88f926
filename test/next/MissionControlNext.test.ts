import { cpSync } from "node:fs"
import { join } from "node:path"
import { layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { must, pack, start } from "../../scripts/installed.mjs"
import * as ExampleProject from "../examples/ExampleProject.js"
import { visits } from "../journeys/fixtures/AppWithControl.js"
import { Browser } from "../support/Browser.js"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

// The packed package in the example, built and started by Next.js. Installs Next.js, so only `npm run test:next` runs it.

const name = "mission-control-next"
const quiet = { NEXT_TELEMETRY_DISABLED: "1" }

layer(Browser.layer, { excludeTestServices: true })("Mission Control", (it) => {
  it.scoped(
    "in a Next.js app: has the login of the app, its roles and its names, and refuses forms of other sites",
    () =>
      Effect.gen(function* () {
        const databaseUrl = Redacted.value(yield* TestDatabase.migrated)
        const cwd = yield* Nightshift.folder
        cpSync(join(ExampleProject.examples, name), cwd, { recursive: true })
        const next = join(cwd, "node_modules/.bin/next")
        yield* Effect.promise(async () => {
          const { tarball } = await pack(cwd)
          await must(cwd, "npm", ["install", "--ignore-scripts", "--no-audit", "--no-fund", tarball])
          // As in CI, without a database.
          await must(cwd, next, ["build"], { ...quiet, DATABASE_URL: "" })
        })
        yield* ExampleProject.started(name, "worker.ts", /started: serving/, databaseUrl)
        const app = yield* Effect.acquireRelease(
          Effect.promise(() =>
            start(cwd, next, ["start", "--hostname", "localhost", "--port", "0"], {
              env: { ...quiet, DATABASE_URL: databaseUrl },
              sign: "Ready in"
            })
          ),
          ({ stop }) => Effect.promise(() => stop("SIGTERM"))
        )
        yield* visits(/http:\/\/localhost:\d+/.exec(app.said())?.[0] ?? "")
      })
  )
})
