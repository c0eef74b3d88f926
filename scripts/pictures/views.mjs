// The views of the contact sheets: the URL of each, and the clicks that open it.

const press = (page, name) => page.getByRole("button", { name, exact: true }).first().click()

/** Presses a button of the side bar, which a phone shows in its menu. */
const pressInBar = async (page, name) => {
  const menu = page.getByRole("button", { name: /Menu/ })
  if (await menu.isVisible()) await menu.click()
  await press(page, name)
}

const dialog = (page) => page.getByRole("dialog")

/** Answers the requests of a page with an error, or not at all. */
const withAnswer = (page, pattern, answer) => page.route(pattern, answer)

const busy = {
  status: 503,
  json: { error: { tag: "SearchTooSlow", message: "The search took longer than 5 s. Narrow the filter." } }
}

/**
 * `hash` is the URL fragment. `open` performs clicks and returns when the view is visible. `before` runs before the page
 * opens. `only` limits the view to one width; `isLoading` allows a view that is still loading.
 */
export const viewsOf = ({ deadJob, endpoint, event, pod, waitingJob }) => [
  { name: "overview", hash: "#/overview" },
  { name: "overview-attention", hash: "#/overview", open: (page) => press(page, /^Show \d+ more$/) },
  { name: "overview-palette", hash: "#/overview", open: (page) => pressInBar(page, /^Find/) },
  { name: "overview-actions", hash: "#/overview", open: (page) => pressInBar(page, "Recent actions") },
  { name: "overview-7d", hash: "#/overview?range=7+d" },
  { name: "overview-menu", hash: "#/overview", only: "390", open: (page) => press(page, /Menu/) },
  { name: "queues", hash: "#/queues" },
  { name: "queue", hash: "#/queues/billing" },
  { name: "queue-settings", hash: "#/queues/billing", open: (page) => press(page, "Settings") },
  { name: "queue-paused", hash: "#/queues/imports" },
  { name: "workflows", hash: "#/workflows" },
  { name: "execution", hash: `#/workflows/${encodeURIComponent("order/A-17")}` },
  {
    name: "execution-step",
    hash: `#/workflows/${encodeURIComponent("order/B-1")}`,
    open: (page) => page.getByRole("button", { name: "charge", exact: true }).last().press("Enter")
  },
  { name: "execution-dead", hash: `#/workflows/${encodeURIComponent("order/C-3")}` },
  { name: "events", hash: "#/events" },
  { name: "event", hash: `#/events/${event}` },
  { name: "endpoints", hash: "#/endpoints" },
  { name: "endpoint", hash: `#/endpoints/${endpoint}` },
  { name: "schedules", hash: "#/schedules" },
  {
    name: "schedules-runs",
    hash: "#/schedules",
    open: async (page) => {
      await press(page, "Next runs")
      await press(page, "History")
    }
  },
  {
    name: "schedules-edit",
    hash: "#/schedules",
    open: async (page) => {
      await press(page, /^Actions of /)
      await press(page, "Edit")
    }
  },
  { name: "schedules-new", hash: "#/schedules", open: (page) => press(page, "New schedule") },
  { name: "pods", hash: "#/pods" },
  { name: "pod", hash: `#/pods/${pod}` },
  { name: "jobs", hash: "#/jobs" },
  { name: "jobs-filters", hash: "#/jobs?kind=charge_card&state=dead", open: (page) => press(page, "More filters") },
  { name: "jobs-save-view", hash: "#/jobs?kind=charge_card&state=dead", open: (page) => press(page, "Save view") },
  {
    name: "jobs-columns",
    hash: "#/jobs?state=done&sort=duration",
    open: (page) => page.getByText("Columns", { exact: true }).click()
  },
  {
    name: "jobs-enqueue",
    hash: "#/jobs",
    open: async (page) => {
      await press(page, "Enqueue")
      await dialog(page).getByLabel("Kind", { exact: true }).fill("charge_card")
      await dialog(page).getByLabel("Payload").fill('{\n  "order": 7,\n  "cents": "12"\n}')
      await dialog(page).getByText("cents must be").first().waitFor()
    }
  },
  { name: "scheduled", hash: "#/scheduled" },
  { name: "retries", hash: "#/retries" },
  { name: "dead", hash: "#/dead" },
  {
    name: "dead-requeue",
    hash: "#/dead",
    open: async (page) => {
      await press(page, "Requeue all")
      await dialog(page)
        .getByText(/\d+ jobs?\?$/)
        .waitFor()
    }
  },
  { name: "job", hash: `#/jobs/${deadJob}` },
  { name: "job-waiting", hash: `#/jobs/${waitingJob}` },
  {
    name: "job-edit",
    hash: `#/jobs/${waitingJob}`,
    open: async (page) => {
      await press(page, "Edit")
      await dialog(page).waitFor()
    }
  },
  { name: "kind", hash: "#/kinds/charge_card" },
  { name: "bots", hash: "#/bots" },
  { name: "bots-deliveries", hash: "#/bots", open: (page) => press(page, "Deliveries") },
  { name: "uploads", hash: "#/uploads" },
  { name: "limits", hash: "#/limits" },
  { name: "audit", hash: "#/audit" },
  { name: "audit-changes", hash: "#/audit", open: (page) => press(page, "Changes") },
  { name: "database", hash: "#/database" },
  {
    name: "keys",
    hash: "#/overview",
    open: async (page) => {
      await page.keyboard.press("?")
      await dialog(page).waitFor()
    }
  },
  { name: "empty-list", hash: "#/jobs?kind=none_of_these" },
  { name: "missing-job", hash: "#/jobs/0198c0de-0000-7000-8000-000000000000" },
  { name: "missing-page", hash: "#/nowhere" },
  {
    name: "error",
    hash: "#/jobs?text=none",
    before: (page) => withAnswer(page, /\/jobs\?/, (route) => route.fulfill(busy))
  },
  {
    name: "loading",
    hash: "#/jobs?text=late",
    isLoading: true,
    before: (page) => withAnswer(page, /\/jobs\?/, () => {})
  },
  {
    name: "disconnected",
    hash: "#/overview",
    isLoading: true,
    open: async (page) => {
      await withAnswer(page, /\/api\/v1\//, (route) => route.abort())
      await page.getByText("Disconnected.").waitFor()
    }
  },
  {
    name: "login",
    hash: "#/overview",
    isLast: true,
    before: async (page) => {
      await page.context().clearCookies()
      await page.reload()
      await page.getByLabel("Token").waitFor()
    }
  }
]

/** The pictures of README.md and docs/, one screenful each. */
export const readmeViewsOf = ({ deadJob }) => [
  { file: "overview-light.png", hash: "#/overview", theme: "light" },
  { file: "job.png", hash: `#/jobs/${deadJob}`, theme: "light" },
  { file: "dead.png", hash: "#/dead", theme: "light" }
]
