import { expect, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import * as ExampleProject from "../examples/ExampleProject.js"
import { strays, visits } from "../journeys/fixtures/AppWithControl.js"
import { ControlRoom } from "../journeys/fixtures/ControlRoom.js"
import { button, step } from "../journeys/fixtures/OperatorSteps.js"
import { Browser } from "../support/Browser.js"
import * as PrefixProxy from "../support/PrefixProxy.js"
import * as TestDatabase from "../support/TestDatabase.js"

layer(Layer.merge(Browser.layer, ControlRoom.layer), { excludeTestServices: true, timeout: "3 minutes" })(
  "Mission Control",
  (it) => {
    it.scoped.each([
      ["mission-control-express", /listening on .*port: (\d+)/s],
      ["mission-control-hono", /listening on \S+:(\d+)/]
    ] as const)(
      "in the app of %s: has the login of the app, its roles and its names, and refuses forms of other sites",
      ([name, ready]) =>
        Effect.gen(function* () {
          const databaseUrl = Redacted.value(yield* TestDatabase.migrated)
          const { match } = yield* ExampleProject.started(name, "src/server.ts", ready, databaseUrl)
          yield* visits(`http://localhost:${match[1]}`)
        })
    )

    it.scoped("works behind a proxy that removes a prefix", () =>
      Effect.gen(function* () {
        const { url } = yield* ControlRoom
        const base = yield* PrefixProxy.listen(url, "/tools/night")
        const page = yield* Browser.page()
        const outside = strays(page, base)
        yield* step(async () => {
          await page.goto(base)
          expect(page.url()).toBe(`${base}/ui/`)
          await page.getByLabel("Token").fill("admin-sesame")
          await button(page, "Log in").click()
          await button(page, "Live").waitFor()
          await page.goto(`${base}/ui/#/queues/default`)
          await button(page, "Pause").click()
          await page.getByText("by ui:admin").waitFor()
          await page.getByRole("link", { name: "API docs" }).click()
          await page.getByRole("heading", { name: "Nightshift API v1" }).waitFor()
          expect(outside).toEqual([])
        })
      })
    )
  }
)
