import type { ComponentChildren } from "preact"
import type { Resource } from "../Resource"
import { Failure } from "./Failure"

/** Empty state: says what would appear here and how to make it appear. */
export const Empty = ({ children }: { readonly children: ComponentChildren }) => <div class="empty">{children}</div>

/** Renders a resource. Shows a loading state before the first response, and errors above the last data. */
export function Shown<A>({ of, children }: { of: Resource<A>; children: (data: A) => ComponentChildren }) {
  return (
    <>
      <Failure text={of.refused?.message} />
      {of.data === undefined ? of.refused === undefined ? <Empty>Loading…</Empty> : null : children(of.data)}
    </>
  )
}
