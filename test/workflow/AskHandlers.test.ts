import { Runtime } from "effect"
import { expect, it } from "vitest"
import { AskHandlers } from "../../src/client/workflow/AskHandlers.js"
import { Replay } from "../../src/client/workflow/Replay.js"
import type { RunJournal } from "../../src/client/workflow/RunJournal.js"
import type { Step } from "../../src/queue/workflow/Execution.js"

const recorded = (id: number): Step => ({
  name: `ask:add/${id}`,
  kind: "ask",
  attempt: 1,
  sequence: id,
  outcome: "done",
  exit: { value: id, ask: "add" },
  startedAt: 0,
  endedAt: 0,
  retryAt: undefined,
  reopenedAt: undefined
})

it("a replay calls the handler for all asks, and stores only answers that an earlier run has not stored", async () => {
  const stored: Array<string> = []
  const journal = {
    waits: [],
    known: async () => {},
    deferred: (_: string, row: string) => ({ completedAt: row === "add/2" ? undefined : 1 }),
    answer: async (row: string) => void stored.push(row)
  }
  const acts: Array<Promise<void>> = []
  const host = {
    journal: journal as unknown as RunJournal,
    isComparing: false,
    busy: (act: () => Promise<void>) => void acts.push(act()),
    conclude: () => {},
    refresh: async () => {},
    check: () => {}
  }
  const handlers = new AskHandlers(host, Runtime.defaultRuntime)
  const replay = new Replay({ results: [recorded(1), recorded(2), recorded(3)], reopened: [], waits: [] }, false)
  const called: Array<unknown> = []
  handlers.attach("add", undefined, (value) => called.push(value), replay)
  for (let turn = 0; turn < 3; turn += 1) replay.turn()
  await handlers.settled()
  await Promise.all(acts)
  expect(called).toEqual([1, 2, 3])
  expect(stored).toEqual(["add/2"])
  expect(handlers.isAnswering).toBe(false)
})
