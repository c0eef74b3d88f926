import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { signsOfProduction } from "../../src/cli/chaos/ChaosCommand.js"
import * as Nightshift from "../support/Nightshift.js"

const chaos = (args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) =>
  Effect.scoped(
    Effect.flatMap(Nightshift.folder, (cwd) =>
      Nightshift.call(["chaos", ...(args.includes("--url") ? [] : ["--url", "http://127.0.0.1:1"]), ...args], {
        cwd,
        env
      })
    )
  )

const token = { NIGHTSHIFT_ADMIN_TOKEN: "sesame" }

describe("nightshift chaos", () => {
  it.live("does nothing without --allow, and lists the faults", () =>
    Effect.gen(function* () {
      const { code, stderr } = yield* chaos([], token)
      expect(code).toBe(2)
      expect(stderr).toMatch(/No fault is allowed, so nothing was done/)
      for (const fault of ["connections", "locks", "pause", "cancel", "sigkill"])
        expect(stderr).toContain(`  ${fault} `)
    })
  )

  it.live.each([
    [["--allow", "pause,meteor"], token, 'unknown fault "meteor"'],
    [
      ["--allow", "pause", "--url", "jobs.example.org"],
      token,
      '--url must be a URL like http://127.0.0.1:8787, got "jobs'
    ],
    [["--allow", "sigkill"], token, "no process is named. Add --pid"],
    [["--allow", "sigkill", "--pid", "12,0"], token, '--pid must be process ids separated by commas, got "0"'],
    [["--allow", "locks"], token, "DATABASE_URL is not set"],
    [["--allow", "pause"], {}, "Set NIGHTSHIFT_ADMIN_TOKEN"],
    [["--allow", "pause", "--rate", "0"], token, "--rate must be between 1 and 100, got 0"]
  ] as const)("refuses %j with %j", ([args, env, expected]) =>
    Effect.gen(function* () {
      const { code, stderr } = yield* chaos([...args], env)
      expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(expected) })
    })
  )

  it.live("says that the service is not reachable", () =>
    Effect.gen(function* () {
      const { code, stderr } = yield* chaos(["--allow", "pause"], token)
      expect(code).toBe(1)
      expect(stderr).toMatch(/127\.0\.0\.1:1\/api\/v1\/session: /)
    })
  )

  it.each([
    [["127.0.0.1"], 0, 0],
    [["localhost"], 0, 0],
    [["[::1]"], 0, 0],
    [["jobs.staging.example.org"], 0, 0],
    [["jobs-test.internal"], 0, 0],
    [["jobs.example.org"], 0, 1],
    [["latest.example.org"], 0, 1],
    [["10.0.0.7"], 3, 2],
    [["127.0.0.1"], 3, 1]
  ])("takes the hosts %j with %i other jobs for production for %i reasons", (hosts, jobs, reasons) => {
    expect(signsOfProduction(hosts, jobs)).toHaveLength(reasons)
  })
})
