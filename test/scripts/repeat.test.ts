import { describe, expect, it } from "@effect/vitest"
import { unstable } from "../../scripts/unstable.mjs"

const report = (status: string, more: object = {}) => ({
  code: status === "passed" ? 0 : 1,
  tests: [
    { file: "a.test.ts", name: "is stable", status: "passed", message: "" },
    { file: "a.test.ts", name: "is flaky", status, message: status === "failed" ? "expected 1" : "" }
  ],
  broken: [],
  output: "",
  ...more
})

describe("repeated runs", () => {
  it("are stable if every test passed every time", () => {
    expect(unstable([report("passed"), report("passed")])).toEqual([])
    expect(unstable([report("skipped", { code: 0 })])).toEqual([])
  })

  it("list a test that failed in one of them, with the reason", () => {
    const found = { name: "a.test.ts > is flaky", failures: 1, message: "expected 1" }
    expect(unstable([report("passed"), report("failed"), report("passed")])).toEqual([found])
  })

  it("list what failed most often first", () => {
    const broken = [{ file: "b.test.ts", message: "cannot be loaded" }]
    const found = unstable([report("failed"), report("failed", { broken }), report("failed")])
    expect(found.map(({ failures, name }) => [failures, name])).toEqual([
      [3, "a.test.ts > is flaky"],
      [1, "b.test.ts"]
    ])
  })

  it("list a run that failed although its tests passed", () => {
    const found = { name: "the run itself", failures: 1, message: "Error: a browser is dying" }
    expect(unstable([report("passed", { code: 1, output: "Unhandled\nError: a browser is dying\n" })])).toEqual([found])
  })
})
