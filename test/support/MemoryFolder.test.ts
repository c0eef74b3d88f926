import { spawnSync } from "node:child_process"
import { expect, it } from "vitest"
import { isAbandoned } from "./MemoryFolder.js"

it("a folder is abandoned if it is old and its run has ended", () => {
  const { pid } = spawnSync(process.execPath, ["--version"])
  const old = Date.now() - 7_200_000
  expect(isAbandoned(`nightshift-test-${pid}-abc`, old)).toBe(true)
  expect(isAbandoned(`nightshift-test-${pid}-abc`, Date.now())).toBe(false)
  expect(isAbandoned(`nightshift-test-${process.pid}-abc`, old)).toBe(false)
})
