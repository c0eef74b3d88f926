import { spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import { launchOptions } from "../../scripts/chromium.mjs"

// Variables that users set, and those of a fresh container. Each of these changed the browser's behaviour or crashed
// it.
const environments = [
  { LANG: undefined, LANGUAGE: undefined },
  { LANG: "C", LANGUAGE: undefined },
  { LANG: "C.UTF-8", LANGUAGE: undefined },
  { LANG: "de_DE.UTF-8", LANGUAGE: undefined },
  { LANG: "en_US.UTF-8", LANGUAGE: "en_US" },
  { LANG: "POSIX", LC_ALL: "POSIX", HOME: "/nonexistent" }
]

describe("the browser's environment", () => {
  it.each(environments)("is the same under %o", (environment) => {
    const before = Object.keys(environment).map((name) => [name, process.env[name]] as const)
    const apply = (entries: Iterable<readonly [string, string | undefined]>) => {
      for (const [name, value] of entries) {
        if (value === undefined) delete process.env[name]
        else process.env[name] = value
      }
    }
    const found = { executable: "chromium", env: {} }
    apply(Object.entries(environment))
    try {
      const { args, env } = launchOptions(found, "home")
      assert.include(args, "--lang=en-US")
      assert.deepInclude(env, { LANG: "en_US.UTF-8", HOME: "home" })
      assert.notProperty(env, "LANGUAGE")
      assert.notProperty(env, "LC_ALL")
    } finally {
      apply(before)
    }
  })
})

describe("preparing a browser", () => {
  const prepare = (chromiumPath: string) =>
    spawnSync(process.execPath, [fileURLToPath(new URL("../../scripts/prepare-browser.mjs", import.meta.url))], {
      encoding: "utf8",
      env: { ...process.env, CHROMIUM_PATH: chromiumPath }
    })

  it("refuses a CHROMIUM_PATH that names no program", () => {
    const { status, stderr } = prepare("/nowhere/chromium")
    assert.strictEqual(status, 1)
    assert.include(stderr, "CHROMIUM_PATH is /nowhere/chromium, which is not an executable file")
  })

  it("accepts a working CHROMIUM_PATH without output", () => {
    const { status, stderr, stdout } = prepare(process.execPath)
    assert.deepStrictEqual({ status, stderr, stdout }, { status: 0, stderr: "", stdout: "" })
  })
})
