import { spawnSync } from "node:child_process"
import { mkdtempSync, utimesSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it } from "vitest"
import { isAbandoned } from "./MemoryFolder.js"

it("a folder is abandoned if it is old and its run has ended", () => {
  const { pid } = spawnSync(process.execPath, ["--version"])
  const abandoned = (owner: number | undefined, hours: number) => {
    const folder = mkdtempSync(join(tmpdir(), "folder-"))
    if (owner !== undefined) writeFileSync(join(folder, "process"), `${owner}`)
    const at = Date.now() / 1_000 - hours * 3_600
    utimesSync(folder, at, at)
    return isAbandoned(folder)
  }
  expect(abandoned(pid, 2)).toBe(true)
  expect(abandoned(undefined, 2)).toBe(true)
  expect(abandoned(pid, 0)).toBe(false)
  expect(abandoned(process.pid, 2)).toBe(false)
})
