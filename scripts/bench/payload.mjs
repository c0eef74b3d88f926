// What every job carries: JSON of exactly 230 bytes, the same for every system.

const size = 230

/** The payload of the n-th job; `at` is an instant of the machine's monotonic clock, for latencies across processes. */
export const payloadOf = (n, at = 0n) => {
  const payload = { n, at: String(at).padStart(20, "0"), text: "" }
  payload.text = "x".repeat(size - JSON.stringify(payload).length)
  return payload
}

/** Payloads of the jobs from `first` on. */
export const payloadsFrom = (first, count) => Array.from({ length: count }, (_, index) => payloadOf(first + index))

/** Which of the keys the n-th job has: in no order a batch of any size could profit from. */
export const keyOf = (n, keys) => (Math.imul(n + 1, 0x9e3779b1) >>> 8) % keys
