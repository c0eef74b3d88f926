import type { ComponentChildren } from "preact"
import type { Resource } from "../Resource"
import { Failure } from "./Failure"

/** Nothing is there, and that is said together with what to do about it. */
export const Empty = ({ children }: { readonly children: ComponentChildren }) => <div class="empty">{children}</div>

/** Shows what was read; before the first answer its outline, and a refusal without taking away what stood there. */
export function Shown<A>({ of, children }: { of: Resource<A>; children: (data: A) => ComponentChildren }) {
  return (
    <>
      <Failure text={of.refused?.message} />
      {of.data === undefined ? of.refused === undefined ? <Empty>Loading…</Empty> : null : children(of.data)}
    </>
  )
}
