import { Schema } from "effect"
import * as Backoff from "../../core/Backoff.js"
import * as Job from "../../queue/Job.js"
import * as RateLimit from "../../rate-limits/RateLimit.js"
import * as Schedule from "../../schedule/Schedule.js"
import { Arrival } from "../../uploads/Arrival.js"

// A small web shop that exercises every type of job, queue, limit and schedule Mission Control can show.

/** Fast and frequent. */
export const SendReceipt = Job.make("send_receipt", {
  payload: Schema.Struct({ order: Schema.String, email: Schema.String }),
  queue: "mail"
})

/** Scheduled minutes, hours or days ahead. */
export const SendReminder = Job.make("send_reminder", {
  payload: Schema.Struct({ order: Schema.String, email: Schema.String }),
  queue: "mail",
  priority: 10
})

/** Slow, with progress. */
export const RenderVideo = Job.make("render_video", {
  payload: Schema.Struct({ title: Schema.String, frames: Schema.Int }),
  queue: "video",
  backoff: Backoff.fixed("20 seconds"),
  attempts: 3
})

/** Fails in every possible way: succeeds on retry, exhausts its attempts, is rejected, times out, or throws a bug. */
export const ChargeCard = Job.make("charge_card", {
  payload: Schema.Struct({ order: Schema.String, card: Schema.String, cents: Schema.Int }),
  queue: "billing",
  attempts: 3,
  timeout: "3 seconds",
  backoff: Backoff.stepwise("4 seconds", "12 seconds")
})

/** Throttled by the rate limit of an external API. */
export const SyncStock = Job.make("sync_stock", {
  payload: Schema.Struct({ sku: Schema.String }),
  queue: "stock"
})

/** Occasionally puts its queue into cool-down. */
export const PublishPrice = Job.make("publish_price", {
  payload: Schema.Struct({ sku: Schema.String, cents: Schema.Int }),
  queue: "prices"
})

/** Runs one job at a time per order (key). */
export const ApplyOrderEvent = Job.make("apply_order_event", {
  payload: Schema.Struct({ order: Schema.String, event: Schema.String }),
  queue: "orders"
})

/** Arrives in bursts, in a queue with a start rate limit. */
export const NotifyDevice = Job.make("notify_device", {
  payload: Schema.Struct({ device: Schema.String, text: Schema.String }),
  queue: "push"
})

/** Waits in a paused queue. */
export const ImportCatalogue = Job.make("import_catalogue", {
  payload: Schema.Struct({ supplier: Schema.String, rows: Schema.Int }),
  queue: "imports"
})

/** Waits in a queue that no pod serves. */
export const ExportLedger = Job.make("export_ledger", {
  payload: Schema.Struct({ month: Schema.String }),
  queue: "ledger"
})

/** Enqueued by schedules. */
export const WarmCache = Job.make("warm_cache", { payload: Schema.Struct({ pages: Schema.Int }), queue: "upkeep" })
export const BuildReport = Job.make("build_report", {
  payload: Schema.Struct({ name: Schema.String }),
  queue: "upkeep"
})

/** Enqueued for each uploaded file. */
export const ScanFile = Job.make("scan_file", { payload: Arrival, queue: "files" })

/** Enqueued for each message to the async bot. */
export const AnswerChat = Job.make("answer_chat", {
  payload: Schema.Struct({
    message: Schema.Struct({ text: Schema.String, from: Schema.Struct({ first_name: Schema.String }) })
  }),
  timeout: "10 seconds"
})

/** Omits the queue of `ExportLedger` on purpose. */
export const queues: ReadonlyArray<string> = [
  ...["mail", "video", "billing", "stock", "prices"],
  ...["orders", "push", "imports", "upkeep", "files"]
]

export const shopApi = RateLimit.make("shop_api", { capacity: 10, rate: 4 })
export const mapTiles = RateLimit.make("map_tiles", { capacity: 500, rate: { tokens: 5_000, per: "1 hour" } })
export const limits = [shopApi, mapTiles]

export const schedules: ReadonlyArray<Schedule.Schedule> = [
  Schedule.make("warm_cache", { job: WarmCache, payload: { pages: 12 }, cron: "*/5 * * * * *" }),
  // Runs longer than its interval, so overlapping runs are skipped.
  Schedule.make("sales_report", {
    job: BuildReport,
    payload: { name: "sales" },
    cron: "*/10 * * * * *",
    overlap: "skip"
  }),
  Schedule.make("stock_report", { job: BuildReport, payload: { name: "stock" }, cron: "* * * * *" }),
  Schedule.make("morning_digest", {
    job: BuildReport,
    payload: { name: "digest" },
    cron: "30 7 * * 1-5",
    timezone: "Europe/Berlin"
  }),
  Schedule.make("month_end", {
    job: BuildReport,
    payload: { name: "month" },
    cron: "0 2 1 * *",
    timezone: "America/New_York",
    paused: true
  })
]
