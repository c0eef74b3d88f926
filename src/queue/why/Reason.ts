// Types without Effect: programs that use promises see them.

export const reasons = [
  "paused",
  "not_due",
  "retrying",
  "sleeping",
  "waiting_for_signal",
  "waiting_for_child",
  "changed",
  "pinned",
  "cooling_down",
  "rate_limited",
  "no_pod",
  "unknown_kind",
  "key_busy",
  "key_order",
  "waiting_for_slot",
  "running",
  "done",
  "dead",
  "cancelled"
] as const
export type Reason = (typeof reasons)[number]

/** The reason why a job is in its current state. Instants are epoch milliseconds. */
export interface Why {
  /** Code of the reason, such as `paused`, `no_pod` or `rate_limited`. Stable; `detail` has the words. */
  readonly reason: Reason
  /** Text for operators: the cause and what to do about it. */
  readonly detail: string
  /** When this reason ends without intervention, if known. */
  readonly until: number | undefined
}
