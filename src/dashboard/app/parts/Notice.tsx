import type { ComponentChildren } from "preact"
import type { Resource } from "../Resource"
import { Failure } from "./Failure"

/** Empty state: says what would appear here and how to make it appear. */
export const Empty = ({ children }: { readonly children: ComponentChildren }) => <div class="empty">{children}</div>

/**
 * Renders a resource. Shows a loading state before the first response, and errors above the last data. If the service is
 * unreachable, only the page shows that, once.
 */
export function Shown<A>({ of, children }: { of: Resource<A>; children: (data: A) => ComponentChildren }) {
  const refused = of.refused?.status === 0 ? undefined : of.refused
  const waiting = of.refused === undefined ? "Loading…" : "Waiting for the service…"
  return (
    <>
      <Failure text={refused?.message} />
      {of.data === undefined ? refused === undefined ? <Empty>{waiting}</Empty> : null : children(of.data)}
    </>
  )
}
