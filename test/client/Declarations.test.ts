import { readFileSync } from "node:fs"
import { join, relative } from "node:path"
import { describe, expect, it } from "vitest"
import { reachable } from "../../scripts/declarations.mjs"
import { root } from "../support/Nightshift.js"

const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))

/** The packages that an entry point's declarations import, each with the files that do. */
const packagesOf = (entry: string) => {
  const packages: Record<string, Array<string>> = {}
  for (const [file, names] of reachable([join(root, exports[entry].types)])) {
    for (const name of new Set(names)) {
      packages[name] = [...(packages[name] ?? []), relative(join(root, "dist/types"), file)]
    }
  }
  return packages
}

describe("the built declarations", () => {
  it("of nightshift/client, nightshift/serverless and nightshift/testing mention no package but pg and Node's, for transactions and requests", () => {
    expect(packagesOf("./client")).toEqual({
      pg: ["client/HandlerTransaction.d.ts"],
      "node:http": ["client/MissionControl.d.ts"]
    })
    expect(packagesOf("./testing")).toEqual({})
    expect(packagesOf("./serverless")).toEqual({})
  })

  it("of the entries for Effect import only packages that they are installed with", () => {
    const { peerDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
    const installed = [...Object.keys(peerDependencies), "pg"]
    const missing = [".", "./workflow", "./effect/testing"].flatMap((entry) =>
      Object.keys(packagesOf(entry)).filter(
        (name) => !name.startsWith("node:") && !installed.some((each) => name === each || name.startsWith(`${each}/`))
      )
    )
    expect(missing).toEqual([])
  })
})
