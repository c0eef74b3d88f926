import { Runtime } from "effect"
import { describe, expect, it } from "vitest"
import { OpenWaits } from "../../src/client/workflow/OpenWaits.js"

describe("open waits", () => {
  it("look again when another row that they wait for is due, before their own time limit", async () => {
    const waits = new OpenWaits(Runtime.defaultRuntime, () => 1_000)
    const acted = await new Promise((resolve) => {
      waits.add(
        { kind: "signal", name: "event:paid", dueAt: 1_000_000 },
        {
          onDue: () => resolve("timed out"),
          row: () => ({ kind: "value", name: "event:paid~1", dueAt: 1_000 }),
          onRowDue: () => resolve("looked again")
        }
      )
      waits.arm()
    })
    expect(acted).toBe("looked again")
    expect(waits.isEmpty).toBe(true)
  })
})
