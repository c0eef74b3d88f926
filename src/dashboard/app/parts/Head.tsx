import type { ComponentChildren } from "preact"

/** The heading of a page. `side` is shown at the right edge. */
export const Head = (props: {
  readonly title: string
  readonly side?: ComponentChildren
  readonly children?: ComponentChildren
}) => (
  <div class="head">
    <h1>{props.title}</h1>
    {props.children}
    {props.side ? <div class="side">{props.side}</div> : null}
  </div>
)
