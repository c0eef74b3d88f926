import type { ComponentChildren } from "preact"

/** A thing with its name, what stands out about it, what can be done to it, and what there is to know. */
export const Card = (props: {
  readonly name: string
  /** In the place of the plain name. */
  readonly title?: ComponentChildren
  readonly chips?: ComponentChildren
  readonly acts?: ComponentChildren
  readonly children: ComponentChildren
}) => (
  <section class="card" aria-label={props.name}>
    <header>
      <h2>{props.title ?? props.name}</h2>
      {props.chips}
      {props.acts === undefined ? null : <div class="side">{props.acts}</div>}
    </header>
    <div class="body stack">{props.children}</div>
  </section>
)

/** A button that opens and closes a part of the card. */
export const Fold = (props: {
  readonly open: boolean
  readonly turn: (open: boolean) => void
  readonly children: ComponentChildren
}) => (
  <button type="button" aria-expanded={props.open} onClick={() => props.turn(!props.open)}>
    {props.children}
  </button>
)
