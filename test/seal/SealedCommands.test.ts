import { expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { z } from "zod"
import { connect, job } from "../../src/client/index.js"
import * as Nightshift from "../support/Nightshift.js"
import { testCodec, testKey } from "../support/TestCodec.js"
import * as TestDatabase from "../support/TestDatabase.js"

const keysOf = (...ids: ReadonlyArray<string>) =>
  ids.map((id) => `${id}:${testKey(id).key.toString("base64")}`).join(",")

it.scopedLive(
  "commands open values with NIGHTSHIFT_SEAL_KEYS, and name the keys in use and those that are missing",
  () =>
    Effect.gen(function* () {
      const url = Redacted.value(yield* TestDatabase.migrated)
      const cwd = yield* Nightshift.folder
      const id = yield* Effect.promise(async () => {
        await using shift = await connect(url, { codec: testCodec("old"), log: false })
        return (await shift.enqueue(job("greet", { payload: z.object({ who: z.string() }) }), { who: "Ada" })).id
      })
      const call = (keys: string, ...args: ReadonlyArray<string>) =>
        Nightshift.call(args, {
          cwd,
          env: { DATABASE_URL: url, NIGHTSHIFT_ADMIN_TOKEN: "sesame", NIGHTSHIFT_SEAL_KEYS: keys }
        })
      const shown = (keys: string) =>
        Effect.map(call(keys, "jobs", "show", id, "--json"), ({ stdout }) => JSON.parse(stdout))
      expect(yield* shown(keysOf("new", "old"))).toMatchObject({ payload: { who: "Ada" } })
      expect(yield* shown(keysOf("new"))).toMatchObject({
        payload: { $sealed: { key: "old", bytes: expect.any(Number) } }
      })

      const listed = yield* call(keysOf("new", "old"), "keys", "--json")
      expect(JSON.parse(listed.stdout)).toEqual({
        keys: [{ key: "old", values: 1, configured: true, tables: ["job"] }]
      })
      expect((yield* call(keysOf("new"), "keys")).stdout).toMatch(/old +1 +no +job/)

      const well = yield* call(keysOf("new", "old"), "doctor", "--json")
      const found = (text: string) => JSON.parse(text).findings.find(({ check }: { check: string }) => check === "keys")
      expect(found(well.stdout)).toMatchObject({
        status: "ok",
        found: "The keys of all sealed jobs are configured: old."
      })
      const ill = yield* call(keysOf("new"), "doctor", "--json")
      expect(found(ill.stdout)).toMatchObject({
        status: "fail",
        found: '1 unfinished job is sealed with the key "old", which is not in NIGHTSHIFT_SEAL_KEYS.'
      })

      const wrong = yield* call("k1:c2hvcnQ=", "jobs", "list")
      expect(wrong.code).not.toBe(0)
      expect(wrong.stderr).toContain("NIGHTSHIFT_SEAL_KEYS")
      expect(wrong.stderr).toContain("got 5 bytes")
      expect(wrong.stderr).not.toContain("c2hvcnQ=")
    })
)
