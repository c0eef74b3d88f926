// What the API answers, as far as the pages use it.

export const states = ["scheduled", "retrying", "pending", "running", "done", "dead"] as const
export type State = (typeof states)[number]

export interface Attempt {
  readonly attempt: number
  readonly pod: string
  readonly startedAt: string
  readonly endedAt: string
  readonly outcome: string
  readonly message: string | null
}

export interface Job {
  readonly id: string
  readonly kind: string
  readonly queue: string
  readonly state: State
  readonly status: "pending" | "running" | "done" | "dead"
  readonly payload: unknown
  readonly attempt: number
  readonly maxAttempts: number
  readonly priority: number
  readonly runAt: string
  readonly createdAt: string
  readonly startedAt: string | null
  readonly finishedAt: string | null
  readonly lastError: string | null
  readonly errors: ReadonlyArray<Attempt>
  readonly deadReason: string | null
  readonly result: unknown
  readonly progress: unknown
  readonly dedupe: { readonly key: string; readonly scope: string } | null
  readonly pod: string | null
  readonly meta: unknown
}

export interface Total {
  readonly count: number
  readonly exact: boolean
}

export interface JobPage {
  readonly jobs: ReadonlyArray<Job>
  readonly next: string | null
  readonly total: Total
}

export interface Why {
  readonly reason: string
  readonly detail: string
  readonly until?: string | null
}

/** A number that may be a lower bound. */
export const countText = ({ count, exact }: Total): string => `${count.toLocaleString()}${exact ? "" : "+"}`
