import { execFile } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as Nightshift from "../support/Nightshift.js"

describe("the benchmark", () => {
  it.scopedLive(
    "still measures Nightshift and the SQL limit, with tiny counts and without the peers",
    () =>
      Effect.gen(function* () {
        const file = join(yield* Nightshift.folder, "results.json")
        const args = ["--only", "nightshift,sql-limit", "--rows", "enqueue,drain", "--jobs", "200", "--rounds", "1"]
        const { stdout } = yield* Effect.promise(() =>
          promisify(execFile)(process.execPath, [
            join(Nightshift.root, "scripts/bench/run.mjs"),
            ...args,
            "--json",
            file
          ])
        )
        expect(stdout).not.toContain("failed")
        expect(stdout).toMatch(/round 1 +drain +nightshift +[\d.]+/)
        expect(JSON.parse(readFileSync(file, "utf8"))).toBeTypeOf("object")
      }),
    180_000
  )
})
