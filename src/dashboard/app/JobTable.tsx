import type { Row } from "./HeldRows"
import { type Column, usualColumns } from "./JobColumns"
import { Empty } from "./parts/Notice"
import { type Order, SortHeader } from "./parts/SortHeader"
import { Table } from "./parts/Table"

/** Interactive parts of a list: a cursor, checkboxes and sort headings. */
interface Handling {
  readonly chosen: ReadonlySet<string>
  /** The id of the job that keys act on. */
  readonly cursor: string | undefined
  readonly onToggle: ((id: string) => void) | undefined
  readonly onToggleAll: (isChosen: boolean) => void
  readonly order: Order
  readonly onSort: (column: Column) => void
}

const headingOf = (column: Column, handling: Handling | undefined) =>
  handling === undefined || column.sort === undefined ? (
    <th key={column.id} class={column.class}>
      {column.label}
    </th>
  ) : (
    <SortHeader
      key={column.id}
      by={column.sort}
      class={column.class}
      order={handling.order}
      onSort={() => handling.onSort(column)}
    >
      {column.label}
    </SortHeader>
  )

export const JobTable = (props: {
  readonly rows: ReadonlyArray<Row>
  readonly columns?: ReadonlyArray<Column>
  readonly handling?: Handling
  readonly empty: string
}) => {
  const { columns = usualColumns(), handling, rows } = props
  const { chosen, cursor, onToggle, onToggleAll } = handling ?? {}
  if (rows.length === 0) return <Empty>{props.empty}</Empty>
  return (
    <Table
      class={onToggle === undefined ? "stacked jobs plain" : "stacked jobs"}
      headings={[
        onToggle === undefined ? null : (
          <th key="pick" class="pick">
            <input
              type="checkbox"
              aria-label="Select all jobs on this page"
              checked={rows.every(({ gone, job }) => gone || chosen?.has(job.id))}
              onChange={(event) => onToggleAll?.(event.currentTarget.checked)}
            />
          </th>
        ),
        ...columns.map((column) => headingOf(column, handling))
      ]}
    >
      {rows.map(({ gone, job, passed }) => (
        <tr
          key={job.id}
          class={`${job.id === cursor ? "cursor" : ""} ${gone || passed ? "gone" : ""}`}
          title={gone ? "No longer in this list" : passed ? "On a later page now, not updated" : undefined}
          aria-selected={chosen?.has(job.id) ?? false}
        >
          {onToggle === undefined ? null : (
            <td class="pick">
              <input
                type="checkbox"
                aria-label={`Select job ${job.id}`}
                checked={chosen?.has(job.id) ?? false}
                onChange={() => onToggle(job.id)}
              />
            </td>
          )}
          {columns.map(({ cell, class: of, id }) => (
            <td key={id} class={of}>
              {cell(job, gone || passed)}
            </td>
          ))}
        </tr>
      ))}
    </Table>
  )
}
