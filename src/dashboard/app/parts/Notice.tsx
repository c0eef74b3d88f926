import type { ComponentChildren } from "preact"
import { isDatabaseDown } from "../Api"
import { isTransient, type Resource } from "../Resource"
import { Failure } from "./Failure"

/** Empty state: says what would appear here and how to make it appear. */
export const Empty = ({ children }: { readonly children: ComponentChildren }) => <div class="empty">{children}</div>

/**
 * Renders a resource. Shows a loading state before the first response, and errors above the last data. If the service or
 * its database is unreachable, only the page shows that, once. The data of another path is not shown below the error of
 * this one.
 */
export function Shown<A>({ of, children }: { of: Resource<A>; children: (data: A) => ComponentChildren }) {
  const isOutage = of.error !== undefined && (of.error.status === 0 || isDatabaseDown(of.error))
  const error = isOutage ? undefined : of.error
  const data = of.isOther && of.error !== undefined && !isTransient(of.error) ? undefined : of.data
  const waiting = of.error === undefined ? "Loading…" : "Waiting for the service…"
  return (
    <>
      <Failure text={error?.message} />
      {data === undefined ? error === undefined ? <Empty>{waiting}</Empty> : null : children(data)}
    </>
  )
}
