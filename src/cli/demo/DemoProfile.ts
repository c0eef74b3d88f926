/** How jobs of a kind ran in the hours before the demo started. */
export interface DemoProfile {
  readonly kind: string
  readonly queue: string
  readonly perMinute: number
  /** Typical and maximum duration of a run in milliseconds. */
  readonly usual: number
  readonly worst: number
  /** Share from 0 to 1 of runs that are retried, and of jobs that die. */
  readonly retried: number
  readonly dead: number
  readonly payload: (number: number) => unknown
  /** How its jobs die: attempts used, reason and error. */
  readonly deaths?: ReadonlyArray<readonly [attempts: number, reason: "exhausted" | "rejected", error: string]>
}

const order = (number: number) => `A-${10_000 + ((number * 7_919) % 90_000)}`
const well = { retried: 0, dead: 0 }

export const profiles: ReadonlyArray<DemoProfile> = [
  {
    kind: "send_receipt",
    queue: "mail",
    perMinute: 360,
    usual: 80,
    worst: 400,
    ...well,
    payload: (number) => ({ order: order(number), email: "ada@example.org" })
  },
  {
    kind: "charge_card",
    queue: "billing",
    perMinute: 90,
    usual: 240,
    worst: 3_000,
    retried: 0.08,
    dead: 0.012,
    payload: (number) => ({ order: order(number), card: "4000000000000119", cents: 4_200 + (number % 900) }),
    deaths: [
      [1, "rejected", "card declined: insufficient_funds"],
      [1, "rejected", "card declined: expired_card"],
      [3, "exhausted", "payments.example.com answered 503 Service Unavailable"],
      [3, "exhausted", "connect ECONNRESET payments.example.com:443"]
    ]
  },
  {
    kind: "sync_stock",
    queue: "stock",
    perMinute: 150,
    usual: 150,
    worst: 900,
    retried: 0.2,
    dead: 0,
    payload: (number) => ({ sku: `SKU-${100 + (number % 900)}` })
  },
  {
    kind: "publish_price",
    queue: "prices",
    perMinute: 90,
    usual: 70,
    worst: 300,
    retried: 0.03,
    dead: 0,
    payload: (number) => ({ sku: `SKU-${100 + (number % 900)}`, cents: 1_000 + (number % 5_000) })
  },
  {
    kind: "apply_order_event",
    queue: "orders",
    perMinute: 120,
    usual: 500,
    worst: 2_000,
    ...well,
    payload: (number) => ({ order: `B-${1 + (number % 6)}`, event: "packed" })
  },
  {
    kind: "notify_device",
    queue: "push",
    perMinute: 80,
    usual: 50,
    worst: 4_000,
    ...well,
    payload: (number) => ({ device: `device-${number % 30}`, text: "Back in stock" })
  },
  {
    kind: "render_video",
    queue: "video",
    perMinute: 15,
    usual: 9_000,
    worst: 30_000,
    retried: 0.12,
    dead: 0.01,
    payload: (number) => ({ title: "aurora", frames: 600 + (number % 8_000) }),
    deaths: [[3, "exhausted", "the encoder ran out of memory at frame 4100"]]
  },
  {
    kind: "warm_cache",
    queue: "upkeep",
    perMinute: 12,
    usual: 300,
    worst: 700,
    ...well,
    payload: () => ({ pages: 12 })
  },
  {
    kind: "telegram.helpdesk",
    queue: "bot-helpdesk",
    perMinute: 42,
    usual: 600,
    worst: 2_500,
    retried: 0.05,
    dead: 0.006,
    payload: (number) => ({ update_id: number, message: { text: "where is my order?", from: { first_name: "Ada" } } }),
    deaths: [[1, "rejected", "ChatClosed: Telegram refused sendMessage: Forbidden: bot was blocked by the user"]]
  }
]

/** Traffic factor by time of day with some noise: low at night, double in the afternoon. */
export const trafficFactor = (millis: number, chance: number): number => {
  const hour = (millis / 3_600_000) % 24
  return (0.75 + 0.55 * Math.sin(((hour - 8) / 24) * 2 * Math.PI)) * (0.85 + 0.3 * chance)
}

/** Whether a time lies in the simulated payment outage, 11 to 17 minutes ago. */
export const isIncident = (millisAgo: number): boolean => millisAgo > 11 * 60_000 && millisAgo < 17 * 60_000
