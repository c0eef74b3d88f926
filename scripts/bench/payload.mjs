// Job payloads: JSON of exactly 230 bytes, the same for every system.

const size = 230

/** Payload of the n-th job. `at` is a time of the machine's monotonic clock, for latencies across processes. */
export const payloadOf = (n, at = 0n) => {
  const payload = { n, at: String(at).padStart(20, "0"), text: "" }
  payload.text = "x".repeat(size - JSON.stringify(payload).length)
  return payload
}

export const payloadsFrom = (first, count) => Array.from({ length: count }, (_, index) => payloadOf(first + index))

/** Key of the n-th job, hashed so that no batch size can benefit from the order. */
export const keyOf = (n, keys) => (Math.imul(n + 1, 0x9e3779b1) >>> 8) % keys
