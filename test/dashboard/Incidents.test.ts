import { beforeAll, describe, expect, it, vi } from "vitest"

interface Incident {
  readonly text: string
  readonly href: string
}

/** The module under test. The pages are compiled with other settings, so its own types cannot be imported. */
interface Incidents {
  readonly of: (known: object, now: number) => ReadonlyArray<Incident>
}

let Incidents: Incidents

beforeAll(async () => {
  vi.stubGlobal("location", new URL("http://127.0.0.1/ui/"))
  vi.stubGlobal("document", { addEventListener: () => {}, visibilityState: "hidden" })
  vi.stubGlobal("localStorage", { getItem: () => null, setItem: () => {} })
  Incidents = await import(new URL("../../src/dashboard/app/Incidents.ts", import.meta.url).href)
})

const exact = (value: number) => ({ value, kind: "exact" })

const queue = (name: string, pending: object, more: object = {}) => ({
  name,
  counts: { pending, scheduled: exact(0), retrying: exact(0) },
  limits: { depthCap: null },
  oldestDueAgeSeconds: 7_200,
  paused: false,
  ...more
})

const unserved = (name: string) => ({ code: "unserved_queue", message: `Queue ${name}`, subject: name })

const died = {
  kind: "mail",
  reason: "exhausted",
  shape: "no answer",
  count: 3,
  firstAt: new Date(0).toISOString(),
  lastAt: new Date(0).toISOString(),
  recent: [0, 2, 1]
}

const textsOf = (known: object) => Incidents.of(known, 1_000).map(({ text }) => text)

describe("incidents", () => {
  it("group queues with the same problem, and rank failures above what waits", () => {
    const names = ["a", "b", "c"]
    const known = {
      queues: [...names.map((name) => queue(name, exact(40))), queue("d", exact(9), { paused: true })],
      warnings: names.map(unserved),
      groups: [{ ...died, filter: { kind: "mail", state: "dead", reason: "exhausted", shape: "no answer" } }]
    }
    expect(textsOf(known)).toEqual([
      "3 mail jobs died (exhausted): no answer",
      "3 queues have no worker: 120 jobs due, oldest 2 h.",
      "Queue d is paused: 9 jobs due, oldest 2 h."
    ])
    expect(Incidents.of(known, 1_000)[1]?.href).toBe("#/queues?sort=oldest&order=desc")
  })

  it("name a queue that is alone, and link to it", () => {
    const [incident] = Incidents.of({ queues: [queue("mail", exact(1))], warnings: [unserved("mail")] }, 0)
    expect(incident).toMatchObject({ text: "Queue mail has no worker: 1 job due, oldest 2 h.", href: "#/queues/mail" })
  })

  it("call a queue full only if the number that was counted reaches the limit", () => {
    const capped = { limits: { depthCap: 10_000 } }
    const floor = (value: number) => ({ value, kind: "atLeast" })
    expect(textsOf({ queues: [queue("mail", floor(442), capped)] })).toEqual([])
    expect(textsOf({ queues: [queue("mail", floor(10_000), capped)] })).toEqual([
      "Queue mail is full: 10K+ jobs waiting."
    ])
  })
})
