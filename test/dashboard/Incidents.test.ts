import { beforeAll, describe, expect, it, vi } from "vitest"

interface Incident {
  readonly text: string
  readonly href: string
}

/** The module under test. The pages are compiled with other settings, so its own types cannot be imported. */
interface Incidents {
  readonly of: (known: object, now: number) => ReadonlyArray<Incident>
  readonly snoozeOf: (incident: Incident, snoozes: ReadonlyArray<object>) => object | undefined
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

  it("mark numbers of dead jobs as floors where jobs were left out", () => {
    const groups = [{ ...died, count: 9_900, filter: { kind: "mail", state: "dead" } }]
    expect(textsOf({ groups, sampled: true })).toEqual(["9,900+ mail jobs died (exhausted): no answer"])
  })

  it("link to the dead jobs of a kind if the filter of the group is hidden", () => {
    const [incident] = Incidents.of({ groups: [{ ...died, filter: null }] }, 1_000)
    expect(incident).toMatchObject({ text: "3 mail jobs died (exhausted): no answer", href: "#/dead?kind=mail" })
  })

  it("name a queue that is alone, and link to it", () => {
    const [incident] = Incidents.of({ queues: [queue("mail", exact(1))], warnings: [unserved("mail")] }, 0)
    expect(incident).toMatchObject({ text: "Queue mail has no worker: 1 job due, oldest 2 h.", href: "#/queues/mail" })
  })

  it("name an endpoint that is disabled, and count several", () => {
    const disabled = (subject: string) => ({ code: "endpoint_disabled", message: `Endpoint ${subject}`, subject })
    const [one] = Incidents.of({ warnings: [disabled("a")] }, 0)
    expect(one).toMatchObject({ text: "Endpoint a", href: expect.stringContaining("endpoints/a") })
    const [both] = Incidents.of({ warnings: [disabled("a"), disabled("b")] }, 0)
    expect(both).toMatchObject({ text: "2 endpoints of customers are disabled." })
    expect(both?.href).toContain("standing=disabled")
  })

  it("call a queue full only if the number that was counted reaches the limit", () => {
    const capped = { limits: { depthCap: 10_000 } }
    const floor = (value: number) => ({ value, kind: "atLeast" })
    expect(textsOf({ queues: [queue("mail", floor(442), capped)] })).toEqual([])
    expect(textsOf({ queues: [queue("mail", floor(10_000), capped)] })).toEqual([
      "Queue mail is full: 10K+ jobs waiting."
    ])
  })

  it("say how fast a backlog grows, with its last hour, and offer one safe action", () => {
    const series = {
      since: new Date(0).toISOString(),
      bucket: "2m",
      queues: [
        { queue: "a", enqueued: [0, 0, 0, 10, 20, 30], completed: [0, 0, 0, 0, 0, 0], dead: [0, 0, 0, 0, 0, 0] },
        { queue: "b", enqueued: [0, 0, 0, 0, 0, 60], completed: [0, 0, 0, 0, 0, 20], dead: [0, 0, 0, 0, 0, 0] },
        { queue: "other", enqueued: [9, 9, 9, 9, 9, 9], completed: [0, 0, 0, 0, 0, 0], dead: [0, 0, 0, 0, 0, 0] }
      ]
    }
    const known = {
      queues: [queue("a", exact(60)), queue("b", exact(50)), queue("c", exact(7), { paused: true })],
      warnings: [unserved("a"), unserved("b")],
      series
    }
    const [idle, paused] = Incidents.of(known, 12 * 60_000)
    expect(idle).toMatchObject({
      key: "unserved",
      trend: { values: [10, 10, 10, 20, 40, 110], growth: 10 },
      action: { copy: "NIGHTSHIFT_QUEUES=a,b nightshift serve" }
    })
    expect(paused).toMatchObject({ key: "paused", action: { resume: "c" }, trend: undefined })
  })

  it("stay snoozed until they concern more than twice as many jobs", () => {
    const [incident] = Incidents.of({ queues: [queue("a", exact(100))], warnings: [unserved("a")] }, 0)
    if (incident === undefined) throw new Error("there is no incident")
    const snoozed = (jobs: number) => Incidents.snoozeOf(incident, [{ incident: "unserved", jobs }]) !== undefined
    expect([snoozed(100), snoozed(45), snoozed(44)]).toEqual([true, true, false])
    expect(Incidents.snoozeOf(incident, [{ incident: "paused", jobs: 100 }])).toBeUndefined()
  })
})
