import { Effect } from "effect"
import type { Operation } from "../queue/admin/Operations.js"
import { isWaiting } from "../queue/admin/Rehearsal.js"

const width = 30

const handled = ({ done, failed, skipped }: Operation) =>
  Object.values(skipped).reduce((sum, count) => sum + count, done + failed)

const bar = (label: string, count: number, total: number, share: number): string => {
  const full = Math.round(share * width)
  return `${label} [${"#".repeat(full)}${".".repeat(width - full)}] ${count}/${total}`
}

/** Formats an operation's progress as one line. */
const line = (operation: Operation): string => {
  const count = handled(operation)
  if (isWaiting(operation.rehearsal)) {
    const { ids, succeeded } = operation.rehearsal
    return bar("rehearsal", succeeded, ids.length, succeeded / ids.length)
  }
  const total = operation.total
  if (total === undefined || !total.exact || total.count === 0) return `${operation.action}: ${count} jobs`
  const share = operation.status === "running" ? Math.min(1, count / total.count) : 1
  return bar(operation.action, count, total.count, share)
}

/** Replaces the current terminal line on stderr. Does nothing if stderr is not a terminal. */
export const write = (text: string): Effect.Effect<void> =>
  Effect.sync(() => {
    if (process.stderr.isTTY === true) process.stderr.write(`\r\u001b[K${text}`)
  })

export const show = (operation: Operation): Effect.Effect<void> =>
  write(`${line(operation)}${operation.status === "running" ? "" : "\n"}`)

/** Draws a progress bar for `count` of `total`. */
export const draw = (label: string, count: number, total: number): Effect.Effect<void> =>
  write(bar(label, count, total, count / total))

export const clear: Effect.Effect<void> = write("")
