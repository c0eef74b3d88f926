import type { ComponentChildren } from "preact"

/** A card with a title, chips, actions and content. */
export const Card = (props: {
  readonly name: string
  /** Replaces the name as title. */
  readonly title?: ComponentChildren
  /** Shown beside the title. */
  readonly chips?: ComponentChildren
  readonly acts?: ComponentChildren
  /** Class of the content. `table` has no padding; a chart shrinks with the page only in `body`. [body stack] */
  readonly content?: "body" | "body stack" | "table"
  readonly children: ComponentChildren
}) => (
  <section class="card" aria-label={props.name}>
    <header>
      <h2>{props.title ?? props.name}</h2>
      {props.chips}
      {props.acts ? <div class="side">{props.acts}</div> : null}
    </header>
    {props.content === "table" ? props.children : <div class={props.content ?? "body stack"}>{props.children}</div>}
  </section>
)

/** A button that expands or collapses a section. */
export const Fold = (props: {
  readonly open: boolean
  readonly turn: (open: boolean) => void
  /** Whether it looks like a link. */
  readonly quiet?: boolean
  readonly children: ComponentChildren
}) => (
  <button
    type="button"
    class={props.quiet ? "link small" : undefined}
    aria-expanded={props.open}
    onClick={() => props.turn(!props.open)}
  >
    {props.children}
  </button>
)
