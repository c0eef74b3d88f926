import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Nightshift from "../support/Nightshift.js"

describe("nightshift simulate", () => {
  it.scopedLive("prints a seed step by step, and the same steps again in another process", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const simulate = (...args: ReadonlyArray<string>) => Nightshift.call(["simulate", ...args], { cwd })
      const printed = yield* simulate("--seed", "3", "--trace")
      expect(printed).toMatchObject({ code: 0, stderr: "" })
      expect(printed.stdout).toMatch(/pod-1\.1 +starts/)
      const [, fingerprint] = /^seed 3: all invariants hold \(trace ([0-9a-f]{8})\)$/m.exec(printed.stdout) ?? []
      const { code, stdout } = yield* Nightshift.run(["simulate", "--seed", "3", "--json"], { cwd })
      expect(code).toBe(0)
      expect(JSON.parse(stdout)).toMatchObject({
        ok: true,
        from: 3,
        kept: 1,
        report: { seed: 3, ok: true, fingerprint, violations: [] }
      })
    })
  )

  it.scopedLive("refuses invalid options", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      expect(yield* Nightshift.call(["simulate", "--pods", "0"], { cwd })).toMatchObject({
        code: 2,
        stderr: "nightshift: --pods must be between 1 and 20, got 0. See `nightshift simulate --help`.\n"
      })
      expect(yield* Nightshift.call(["simulate", "--plan", "seed 42"], { cwd })).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("--plan: The plan is not valid: it is not JSON.")
      })
      const most = String(Number.MAX_SAFE_INTEGER)
      expect(yield* Nightshift.call(["simulate", "--seed", most, "--runs", "10"], { cwd })).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("--seed must be at most 9007199254740982 with --runs 10, got 9007199254740991.")
      })
      expect(yield* Nightshift.call(["simulate", "--seed", most], { cwd })).toMatchObject({ code: 0 })
      for (const option of [
        "--seed 1",
        "--runs 1",
        "--pods 1",
        "--jobs 1",
        "--workers 1",
        "--keep-going",
        "--coverage"
      ])
        expect(yield* Nightshift.call(["simulate", "--plan", "{}", ...option.split(" ")], { cwd })).toMatchObject({
          code: 2,
          stderr: expect.stringContaining(`Use --plan or ${option.split(" ")[0]}, not both.`)
        })
    })
  )

  it.scopedLive("replays a plan, and prints a table of operations by fault", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const plan = '{"seed":1,"jobs":2,"pods":1,"steps":[{"at":5,"_tag":"Enqueue","nth":1}],"faults":[]}'
      const replayed = yield* Nightshift.call(["simulate", "--plan", plan, "--trace"], { cwd })
      expect(replayed).toMatchObject({ code: 0, stderr: "" })
      expect(replayed.stdout).toMatch(/client +#1 is job 1/)
      const { stdout } = yield* Nightshift.call(["simulate", "--seed", "5", "--runs", "2", "--coverage"], { cwd })
      expect(stdout).toMatch(/^operation +count +refused +lost +slow +disconnected +killed +dropped$/m)
      expect(stdout).toMatch(/^Queue\.claim +\d+ +\d+ +\d+/m)
    })
  )
})
