import { execFile } from "node:child_process"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { expect, it } from "vitest"
import { z } from "zod"
import * as client from "../../src/client/index.js"
import * as testing from "../../src/testing/index.js"
import { history } from "../testing/seeded-history.mjs"

const program = fileURLToPath(new URL("../testing/seeded-history.mjs", import.meta.url))

// The program runs the built package and keeps its event loop busy.
it("a test has the same history in any process, time zone and language", async () => {
  const env = { ...process.env, TZ: "Asia/Kathmandu", LANG: "tr_TR.UTF-8", LC_ALL: "tr_TR.UTF-8" }
  const { stdout } = await promisify(execFile)(process.execPath, [program], { env, maxBuffer: 64 * 1024 * 1024 })
  expect(stdout).toContain('"state":"dead"')
  expect(stdout).toBe(await history({ client, testing, z }, undefined))
})
