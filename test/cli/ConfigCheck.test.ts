import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Effect } from "effect"
import * as ConfigCheck from "../../src/cli/doctor/ConfigCheck.js"

/** What the doctor says about these settings. */
const findings = (variables: Readonly<Record<string, string>>) => {
  const given = new Map(Object.entries({ NIGHTSHIFT_ADMIN_TOKEN: "sesame", ...variables }))
  return ConfigCheck.run({ names: [...given.keys()], lookUp: (name: string) => given.get(name) } as never).pipe(
    Effect.withConfigProvider(ConfigProvider.fromMap(given)),
    Effect.map((found) => found.map(({ found, status }) => `${status}: ${found}`).join("\n"))
  )
}

describe("the check of the settings", () => {
  it.effect("finds nothing wrong with usual values", () =>
    Effect.gen(function* () {
      const usual = {
        CMD_EXEC_ENV: "MONTH,TZ",
        NIGHTSHIFT_QUEUES: "mail, default,",
        NIGHTSHIFT_TRUST_PROXY: "10.0.0.0/8,::1"
      }
      expect(yield* findings(usual)).toMatch(/^ok: /)
      expect(yield* findings({ NIGHTSHIFT_QUEUES: "" })).toMatch(/^ok: /)
    })
  )

  it.effect("refuses a list of commas only", () =>
    Effect.gen(function* () {
      for (const key of ["NIGHTSHIFT_QUEUES", "ALLOWED_USERS", "HTTP_HANDLER_ALLOW"])
        for (const value of [" , ,", ","])
          expect(yield* findings({ [key]: value })).toMatch(new RegExp(`^fail: .*${key}.* at least one name`))
    })
  )

  it.effect("refuses variables of the loader and the shell, and warns of those that load code into some programs", () =>
    Effect.gen(function* () {
      for (const name of [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "LD_AUDIT",
        "DYLD_INSERT_LIBRARIES",
        "BASH_ENV",
        "ld_preload"
      ])
        expect(yield* findings({ CMD_EXEC_ENV: `MONTH,${name}` }), name).toMatch(
          new RegExp(`^fail: .*CMD_EXEC_ENV.*${name}`)
        )
      for (const name of ["NODE_OPTIONS", "PATH", "PYTHONPATH", "JAVA_TOOL_OPTIONS", "GIT_SSH_COMMAND"])
        expect(yield* findings({ CMD_EXEC_ENV: `MONTH,${name}` }), name).toMatch(
          new RegExp(`^warn: CMD_EXEC_ENV allows ${name}: `)
        )
    })
  )

  it.effect("warns of trusted proxies that include every address", () =>
    Effect.gen(function* () {
      for (const range of ["0.0.0.0/0", "::/0", "0.0.0.0/1,128.0.0.0/1"])
        expect(yield* findings({ NIGHTSHIFT_TRUST_PROXY: range }), range).toMatch(/^warn: .*every client/)
    })
  )
})
