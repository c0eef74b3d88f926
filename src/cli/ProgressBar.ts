import { Effect } from "effect"
import type { Operation } from "../queue/desk/Operations.js"

const width = 30

const handled = ({ done, failed, skipped }: Operation) =>
  Object.values(skipped).reduce((sum, count) => sum + count, done + failed)

/** How far an operation has come, in one line. */
export const line = (operation: Operation): string => {
  const count = handled(operation)
  const total = operation.total
  if (total === undefined || !total.exact || total.count === 0) return `${operation.action}: ${count} jobs`
  const share = operation.status === "running" ? Math.min(1, count / total.count) : 1
  const full = Math.round(share * width)
  return `${operation.action} [${"#".repeat(full)}${".".repeat(width - full)}] ${count}/${total.count}`
}

/** On a terminal each line takes the place of the one before; elsewhere nobody watches. */
export const show = (operation: Operation): Effect.Effect<void> =>
  Effect.sync(() => {
    if (process.stderr.isTTY !== true) return
    process.stderr.write(`\r\u001b[K${line(operation)}${operation.status === "running" ? "" : "\n"}`)
  })
