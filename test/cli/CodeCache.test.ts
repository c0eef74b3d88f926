import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as CodeCache from "../../src/cli/CodeCache.js"
import * as Nightshift from "../support/Nightshift.js"

/** A bundle that writes a word to a file next to it. */
const bundle = (word: string) => `"use strict";
const { fileURLToPath } = require("node:url");
const say = () => require("node:fs").writeFileSync(fileURLToPath(moduleUrl) + ".said", "${word}");
say();
`

const inFolder = Effect.gen(function* () {
  const folder = yield* Nightshift.folder
  const file = join(folder, "bundle.cjs")
  const cache = `${file}.cache`
  writeFileSync(file, bundle("one"))
  /** Starts the bundle and stores its code. Returns what the bundle wrote, and whether the code was stored anew. */
  const start = () => {
    const before = existsSync(cache) ? statSync(cache, { bigint: true }).ino : undefined
    CodeCache.run(file)
    CodeCache.save()
    const after = existsSync(cache) ? statSync(cache, { bigint: true }).ino : undefined
    return { said: readFileSync(`${file}.said`, "utf8"), stored: before !== after }
  }
  return { folder, file, cache, start }
})

describe("the cache of compiled code", () => {
  it.scoped("is written by the first start and used by the next", () =>
    Effect.gen(function* () {
      const { folder, start } = yield* inFolder
      expect(start()).toEqual({ said: "one", stored: true })
      expect(readdirSync(folder).sort()).toEqual(["bundle.cjs", "bundle.cjs.cache", "bundle.cjs.said"])
      expect(start()).toEqual({ said: "one", stored: false })
    })
  )

  it.scoped("is not used for another bundle of the same length", () =>
    Effect.gen(function* () {
      const { file, start } = yield* inFolder
      start()
      writeFileSync(file, bundle("two"))
      expect(start()).toEqual({ said: "two", stored: true })
      expect(start()).toEqual({ said: "two", stored: false })
    })
  )

  it.scoped("is replaced if it is damaged or incomplete", () =>
    Effect.gen(function* () {
      const { cache, start } = yield* inFolder
      start()
      const whole = readFileSync(cache)
      const damaged = Buffer.from(whole)
      damaged[whole.length - 40] = ~(damaged[whole.length - 40] ?? 0) & 0xff
      for (const bytes of [damaged, whole.subarray(0, whole.length / 2), Buffer.alloc(0)]) {
        writeFileSync(cache, bytes)
        expect(start()).toEqual({ said: "one", stored: true })
      }
    })
  )

  it.scoped("is optional: the bundle runs where nothing can be stored", () =>
    Effect.gen(function* () {
      const { cache, start } = yield* inFolder
      // A folder where the new file would be.
      mkdirSync(`${cache}.${process.pid}`)
      expect(start()).toEqual({ said: "one", stored: false })
      expect(start()).toEqual({ said: "one", stored: false })
    })
  )
})
