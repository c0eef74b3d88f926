import type { ComponentChildren } from "preact"

/** The order of a table. */
export interface Order {
  readonly by: string
  readonly descending: boolean
}

/** Reads the order from the query of a URL; undefined if it has none. */
export const readOrder = (query: URLSearchParams): Order | undefined => {
  const by = query.get("sort")
  return by === null ? undefined : { by, descending: query.get("order") !== "asc" }
}

/** The next order after a click on a heading: its natural direction, then the other, then the page's own order. */
export const turned = (order: Order | undefined, by: string, natural: boolean): Order | undefined => {
  if (order?.by !== by) return { by, descending: natural }
  return order.descending === natural ? { by, descending: !natural } : undefined
}

/** A column heading that sorts its table. */
export const SortHeader = (props: {
  readonly by: string
  /** The order that is shown, whether chosen or the page's own. */
  readonly order: Order | undefined
  readonly onSort: (by: string) => void
  readonly class?: string
  readonly title?: string | undefined
  readonly children: ComponentChildren
}) => {
  const { by, order } = props
  const isSorted = order?.by === by
  return (
    <th class={props.class} aria-sort={isSorted ? (order.descending ? "descending" : "ascending") : "none"}>
      <button type="button" class="sort" title={props.title} onClick={() => props.onSort(by)}>
        {props.children}
        <span aria-hidden="true" class={isSorted ? "arrow" : "arrow off"}>
          {isSorted && !order.descending ? "▲" : "▼"}
        </span>
      </button>
    </th>
  )
}
