// API requests of Mission Control's pages, as in src/dashboard/app/pages.

const ago = (seconds) => new Date(Date.now() - seconds * 1000).toISOString()

const query = (values) => `?${new URLSearchParams(values)}`

const rangeOf = (seconds) => query({ since: ago(seconds), until: ago(-10) })

const jobs = (filter = {}) => `jobs${query({ ...filter, limit: 50 })}`

/** Searches without an index. A user runs them occasionally; open tabs do not repeat them. */
export const searches = new Set([
  "jobs, of one kind",
  "jobs, of a missing kind",
  "jobs, by payload",
  "jobs, by dedupe key",
  "jobs, by error text",
  "jobs, by missing error text",
  "jobs, done, by duration",
  "kind, slowest runs",
  "dead, one group"
])

/** Returns all requests by name. `get` calls the API, because some requests depend on earlier responses. */
export const requestsOf = async (get) => {
  const dead = await get(jobs({ state: "dead" }))
  const waiting = await get(jobs({ state: "scheduled" }))
  const { groups } = await get("jobs/groups")
  const [group] = groups
  const [buried] = dead.jobs
  const [scheduled] = waiting.jobs
  if (group === undefined || buried === undefined || scheduled === undefined)
    throw new Error("The database has no dead job or no scheduled job, which the page requests need")
  const next = await get(jobs())
  const [execution] = (await get("workflows")).executions
  const [event] = (await get("published")).events
  const [endpoint] = (await get("endpoints")).endpoints
  return {
    "who is logged in": "session",
    "overview and queues": "queues",
    "overview, 30 minutes": `metrics/series${rangeOf(1_800)}`,
    "overview, 7 days": `metrics/series${rangeOf(604_800)}`,
    "queues, sparklines": "metrics/queues",
    "queue, 24 hours": `metrics/series${rangeOf(86_400)}&queue=queue-3`,
    jobs: jobs(),
    "jobs, second page": jobs(next.next === null ? {} : { cursor: next.next }),
    "jobs, running": jobs({ state: "running" }),
    "jobs, retrying": jobs({ state: "retrying" }),
    "jobs, scheduled": jobs({ state: "scheduled" }),
    "scheduled, by due time": jobs({ state: "scheduled", sort: "due", order: "asc" }),
    "dead, by time of death": jobs({ state: "dead", sort: "finished" }),
    "jobs, done, by duration": jobs({ state: "done", sort: "duration" }),
    "kind, slowest runs": jobs({ kind: "kind-3", state: "done", sort: "duration" }),
    "kind, durations": `metrics/durations${rangeOf(1_800)}&kind=kind-3`,
    "pods, running jobs": `jobs${query({ state: "running", sort: "when", order: "asc", limit: 200 })}`,
    kinds: "kinds",
    workflows: "workflows?roots=true",
    "workflows, counts": "workflows/counts?roots=true",
    "recent actions": "actions?limit=50",
    events: "published",
    endpoints: "endpoints",
    fleet: "fleet",
    // The benchmark stores no executions, events and endpoints; your own database may have some.
    ...(event === undefined ? {} : { event: `published/${event.id}` }),
    ...(endpoint === undefined ? {} : { endpoint: `endpoints/${endpoint.id}` }),
    ...(execution === undefined ? {} : { execution: `workflows/${encodeURIComponent(execution.execution)}` }),
    "jobs, done in one queue": jobs({ queue: "queue-2", state: "done" }),
    "jobs, of one kind": jobs({ kind: "kind-3" }),
    "jobs, of a missing kind": jobs({ kind: "missing" }),
    "jobs, of the last hour": jobs({ since: ago(3_600) }),
    "jobs, by payload": jobs({ payload: '{"customer":77}' }),
    "jobs, by dedupe key": jobs({ dedupe: "once-4" }),
    "jobs, by error text": jobs({ text: "answer from map" }),
    "jobs, by missing error text": jobs({ text: "this text is missing" }),
    "dead, groups": "jobs/groups",
    "dead, list": jobs({ state: "dead" }),
    "dead, one group": jobs(group.filter),
    "search box": `jobs/find/${buried.id}`,
    "saved views": "views",
    job: `jobs/${buried.id}`,
    "job, why it waited": `jobs/${buried.id}/waits`,
    "job, why it waits": `jobs/${scheduled.id}/why`,
    schedules: "schedules?limit=1000",
    "schedule, being written": `expressions${query({ cron: "0 3 * * 1-5", timezone: "Europe/Berlin", count: 3 })}`,
    "schedule, next runs": "schedules/nightly/next",
    "schedule, history": "schedules/nightly/history",
    limits: "limits",
    pods: "pods",
    "pods, measures": `metrics/pods${query({ since: ago(120) })}`,
    database: `metrics/database${rangeOf(1_800)}`,
    audit: "audit",
    "audit, of jobs": "audit?act=job",
    "queue, who paused it": "audit?act=queue.change&target=queue-3&limit=20",
    "overview, retrying": `jobs${query({ state: "retrying", limit: 100 })}`,
    uploads: "uploads",
    "uploads, files": "uploads/files",
    bots: "bots",
    "bots, deliveries": "bots/bench/deliveries"
  }
}
