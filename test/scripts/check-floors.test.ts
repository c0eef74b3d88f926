import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterEach, describe, expect, it } from "@effect/vitest"
import { checkBanned } from "../../scripts/check-banned.mjs"
import { checkFloors } from "../../scripts/check-floors.mjs"

const planted: Array<string> = []
afterEach(() => {
  for (const folder of planted.splice(0)) rmSync(folder, { recursive: true })
})

const plant = (files: Record<string, string>) => {
  const src = mkdtempSync(join(tmpdir(), "floors-"))
  planted.push(src)
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(src, file)), { recursive: true })
    writeFileSync(join(src, file), text)
  }
  return src
}

const root = fileURLToPath(new URL("../..", import.meta.url))

describe("floors", () => {
  it("hold in this repository", () => {
    expect(checkFloors(join(root, "src"))).toEqual([])
  })

  it("refuse an import from above, even of a type", () => {
    const src = plant({
      "core/Job.ts": 'import type { Queue } from "../queue/Queue.js"',
      "queue/Queue.ts": "export interface Queue {}"
    })
    expect(checkFloors(src)).toEqual(["core/Job.ts: imports upward from queue/Queue.ts"])
  })

  it("refuse an import from a sibling", () => {
    const src = plant({
      "queue/Queue.ts": 'export * from "../uploads/Storage.js"',
      "uploads/Storage.ts": "export const storage = 1"
    })
    expect(checkFloors(src)).toEqual(["queue/Queue.ts: imports sideways from uploads/Storage.ts"])
  })

  it("hold for the sub-folders of a room, whose own files are a floor too", () => {
    const src = plant({
      "http/Body.ts": 'import { auth } from "./access/Auth.js"',
      "http/access/Auth.ts": 'import { body } from "../Body.js"',
      "http/bots/Bots.ts": 'import type { Jobs } from "../jobs/Jobs.js"',
      "http/jobs/Jobs.ts": 'import { auth } from "../access/Auth.js"\nimport { queue } from "../../queue/Queue.js"',
      "http/attic/Old.ts": "export {}"
    })
    expect(checkFloors(src).filter((text) => !text.startsWith("circular"))).toEqual([
      "http/Body.ts: imports upward from http/access/Auth.ts",
      'http/attic/Old.ts: "http/attic" has no floor; add it in scripts/check-floors.mjs',
      "http/bots/Bots.ts: imports sideways from http/jobs/Jobs.ts"
    ])
  })

  it("refuse a cycle inside a folder", () => {
    const src = plant({
      "worker/A.ts": 'import {\n  b\n} from "./B.js"',
      "worker/B.ts": 'const c = await import("./A.js")'
    })
    expect(checkFloors(src)).toEqual(["circular: worker/A.ts -> worker/B.ts -> worker/A.ts"])
  })

  it("keep core free of packages, and folders on known floors", () => {
    const src = plant({ "core/Job.ts": 'import pg from "pg"', "helpers/Misc.ts": "export {}" })
    expect(checkFloors(src)).toEqual([
      'core/Job.ts: core/ imports only effect, not "pg"',
      'helpers/Misc.ts: "helpers" has no floor; add it in scripts/check-floors.mjs'
    ])
  })
})

describe("banned words", () => {
  it("occur only in their one place", () => {
    expect(checkBanned(join(root, "src"))).toEqual([])
  })

  it("are found", () => {
    const src = plant({ "core/Job.ts": "const now = Date.now()\nsetTimeout(f, 1)\nconst x = y as any" })
    expect(checkBanned(src)).toHaveLength(3)
  })
})
