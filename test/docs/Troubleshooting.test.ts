import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { root } from "../support/Nightshift.js"

const page = readFileSync(join(root, "docs/operate/troubleshooting.md"), "utf8")

const source = readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts"))
  .map((file) => readFileSync(join(root, "src", file), "utf8").replaceAll('\\"', '"'))
  .join("\n")

/** The first column of the table of messages; … stands for a value. */
const messages = [...(page.split("\n## Messages\n")[1] ?? "").matchAll(/^\| `([^`]+)` \|/gm)].map(
  ([, text = ""]) => text
)

describe("the messages on the page about troubleshooting", () => {
  it("are those that the code prints", () => {
    expect(messages.length).toBeGreaterThan(20)
    const unknown = messages.flatMap((message) => message.split("…").filter((part) => !source.includes(part)))
    expect(unknown).toEqual([])
  })
})
