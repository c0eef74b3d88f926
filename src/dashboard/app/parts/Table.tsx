import type { ComponentChildren, VNode } from "preact"

/** A heading as text, as text with the class of its column, or as an element. */
type Heading = string | readonly [text: string, className: string] | VNode | null

/** A table that scrolls sideways if it is too wide. Its children are the rows. */
export const Table = (props: {
  readonly class?: string
  readonly label?: string
  readonly headings: ReadonlyArray<Heading>
  /** Whether the children are the bodies of the table, in place of its rows. */
  readonly bodies?: boolean
  readonly children: ComponentChildren
}) => (
  <div class="table-wrap">
    <table class={props.class} aria-label={props.label}>
      <thead>
        <tr>
          {props.headings.map((heading) => {
            if (typeof heading === "string") return <th key={heading}>{heading}</th>
            if (heading === null || "type" in heading) return heading
            const [text, className] = heading
            return (
              <th key={text} class={className}>
                {text}
              </th>
            )
          })}
        </tr>
      </thead>
      {props.bodies ? props.children : <tbody>{props.children}</tbody>}
    </table>
  </div>
)
