import type { ComponentChildren } from "preact"

/** A figure with its name below. A tile with `href` is a link. */
export const Tile = (props: {
  readonly figure: string
  readonly href?: string
  /** Whether to use a smaller font, for figures with two units. */
  readonly long?: boolean
  readonly children: ComponentChildren
}) => {
  const content = (
    <>
      <div class={props.long === true ? "figure long" : "figure"}>{props.figure}</div>
      {props.children}
    </>
  )
  return props.href === undefined ? (
    <div class="card tile">{content}</div>
  ) : (
    <a class="card tile" href={props.href}>
      {content}
    </a>
  )
}

/** Figures with their names. */
export const Tiles = (props: { readonly of: ReadonlyArray<readonly [figure: string, name: string]> }) => (
  <div class="tiles">
    {props.of.map(([figure, name]) => (
      <Tile key={name} figure={figure}>
        <span class="quiet">{name}</span>
      </Tile>
    ))}
  </div>
)
