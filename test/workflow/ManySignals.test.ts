import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { RunJournal, type RunServices } from "../../src/client/workflow/RunJournal.js"
import type { JobId, Lease } from "../../src/core/Ids.js"
import type { Deferred } from "../../src/queue/workflow/Execution.js"
import { RunState } from "../../src/queue/workflow/RunState.js"

describe("an execution that takes thousands of signals", () => {
  it("looks at each stored signal a few times, not once for every signal that it takes", async () => {
    const signals = 2_000
    let looks = 0
    const signal = (index: number): Deferred => ({
      kind: "signal",
      get name() {
        looks += 1
        return `item ${index}`
      },
      createdAt: 0,
      dueAt: undefined,
      completedAt: 1,
      exit: index,
      remaining: undefined,
      waiting: false
    })
    const waits = Array.from({ length: signals }, (_, index) => signal(index))
    const journal = new RunJournal(
      {
        id: "order/A",
        woken: 1,
        cancelled: false,
        dying: false,
        cut: false,
        release: undefined,
        continued: 0,
        pinned: undefined,
        crashed: false,
        version: 1,
        run: { id: "" as JobId, lease: "" as Lease },
        state: new RunState(),
        journal: { woken: 1, cancelled: false, steps: [], waits }
      },
      // The claim has brought the journal.
      {} as RunServices,
      Effect.runSync(Effect.runtime<never>()),
      () => false,
      () => true
    )
    await journal.load()
    for (let index = 0; index < signals; index += 1) {
      expect(journal.deferred("signal", `item ${index}`)?.exit).toBe(index)
    }
    expect(journal.deferred("sleep", "item 1")).toBeUndefined()
    expect(looks).toBeLessThan(5 * signals)
  })
})
