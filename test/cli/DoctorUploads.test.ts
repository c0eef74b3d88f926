import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Schema } from "effect"
import { Workspace } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import { Storage } from "../../src/uploads/Storage.js"
import * as StoragePg from "../../src/uploads/StoragePg.js"
import { UploadsConfig } from "../../src/uploads/UploadsConfig.js"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

const acme = Schema.decodeSync(Workspace)("acme")

const house = StoragePg.layer.pipe(Layer.provide(UploadsConfig.layerDefault), Layer.provideMerge(TestDatabase.layer))

const examined = Effect.gen(function* () {
  const cwd = yield* Nightshift.folder
  const url = Redacted.value(yield* DatabaseUrl)
  const { code, stdout } = yield* Nightshift.call(["doctor", "--json"], { cwd, env: { DATABASE_URL: url } })
  const { findings } = JSON.parse(stdout) as { findings: ReadonlyArray<{ check: string }> }
  return { code, uploads: findings.filter(({ check }) => check === "uploads") }
})

describe("the doctor on uploads", () => {
  it.scopedLive("names workspaces that do not fetch their files, and says what to check", () =>
    Effect.gen(function* () {
      const storage = yield* Storage
      const { sql } = yield* Database
      yield* storage.put(acme, { filename: "a", mimetype: "", content: Buffer.alloc(1536) })
      expect(yield* examined).toMatchObject({
        code: 0,
        uploads: [{ status: "ok", found: "Files: 1 waiting, 0 acknowledged; none has waited longer than an hour." }]
      })
      yield* sql`update nightshift.upload set created_at = created_at - interval '3 hours'`
      const file = { filename: "b", mimetype: "", content: Buffer.from("x") }
      const late = yield* storage.put(acme, file)
      yield* sql`update nightshift.upload set expires_at = created_at where file_id = ${late}`
      expect(yield* examined).toMatchObject({
        code: 0,
        uploads: [
          {
            status: "warn",
            found: "Files are waiting too long: acme (1 file, 1.5 KiB, for 3h).",
            fix: expect.stringContaining("nightshift uploads tokens list")
          },
          { status: "warn", found: "More files expired (1) than were acknowledged (0)." }
        ]
      })
    }).pipe(Effect.provide(house))
  )
})
