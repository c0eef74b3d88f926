import { execFile } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Nightshift from "../support/Nightshift.js"
import { isLong } from "../support/Scale.js"

const requestsOf = (source: string) =>
  Array.from(source.matchAll(/useResource<[^(]*?>\(\s*["`]([a-z][a-z/]*)/g), ([, path]) => path)

describe("the benchmark", () => {
  if (isLong) {
    it.scopedLive(
      "measures Nightshift and the SQL limit, with tiny counts and without the peers",
      () =>
        Effect.gen(function* () {
          const file = join(yield* Nightshift.folder, "results.json")
          const args = [
            "--only",
            "nightshift,sql-limit,bare-disk",
            "--rows",
            "enqueue,drain,sealed,tabs,push,uploads,cost,growth-10k,pods-2,queues-100,many-keys-1m,executions,executions-started,signal,signal-result,sleepers,month-hourly",
            "--jobs",
            "200",
            "--rounds",
            "1"
          ]
          const { stdout } = yield* Effect.promise(() =>
            promisify(execFile)(process.execPath, [
              join(Nightshift.root, "scripts/bench/run.mjs"),
              ...args,
              "--json",
              file,
              "--charts",
              dirname(file)
            ])
          )
          expect(stdout).not.toContain("failed")
          expect(stdout).toMatch(/round 1 +drain +nightshift +[\d.]+/)
          expect(stdout).toMatch(/round 1 +tabs +nightshift +[\d.]+ .*slowest page/)
          const { results } = JSON.parse(readFileSync(file, "utf8"))
          expect(results.executions.nightshift).toMatchObject([{ executions: 67, client: expect.any(Number) }])
          expect(results.sleepers.nightshift).toMatchObject([{ disk: expect.any(Number), wake: expect.any(Number) }])
          expect(results.tabs.nightshift).toMatchObject([{ tabs: 5 }])
          // A busy machine may be too slow for a page's time limit. The benchmark's bar on refusals is for quiet ones.
          const refusals: ReadonlyArray<{ refused: string }> = results.tabs.nightshift[0].refusals
          expect(refusals.filter(({ refused }) => !refused.includes("SearchTooSlow"))).toEqual([])
          expect(readFileSync(join(dirname(file), "speed-growth.svg"), "utf8")).toContain("jobs/s")
          expect(readFileSync(join(dirname(file), "speed-scaling.svg"), "utf8")).toContain("Queues")
        }),
      600_000
    )
  }

  it("requests every path that the dashboard pages request", () => {
    const app = join(Nightshift.root, "src/dashboard/app")
    const pages = readdirSync(app, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".tsx"))
    const asked = pages.flatMap((file) => requestsOf(readFileSync(join(app, file), "utf8")))
    const walk = readFileSync(join(Nightshift.root, "scripts/bench/pages.mjs"), "utf8")
    expect(asked.length).toBeGreaterThan(10)
    expect(asked.filter((path) => !new RegExp(`["\`]${path}["\`?$]`).test(walk))).toEqual([])
  })
})
