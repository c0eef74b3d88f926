import { type Route, refine } from "../Route"
import { DraftInput } from "./DraftInput"
import { InstantInput } from "./InstantInput"

// Filters of a list, kept in the URL. A changed filter starts at the first page.

interface Given {
  readonly route: Route
  /** Name of the query parameter. */
  readonly name: string
  readonly label: string
}

const change = ({ name, route }: Given, value: string) => refine(route, { [name]: value, cursor: undefined })

/** A text filter. */
export const FilterInput = (
  props: Given & { readonly hint?: string; readonly width?: string; readonly main?: boolean }
) => {
  const { name, route, ...input } = props
  return (
    <DraftInput type="search" {...input} value={route.query.get(name) ?? ""} onGive={(text) => change(props, text)} />
  )
}

/** A filter with an instant. */
export const FilterInstant = (props: Given) => (
  <InstantInput
    label={props.label}
    value={props.route.query.get(props.name) ?? ""}
    onGive={(instant) => change(props, instant)}
  />
)

/** A filter with a fixed set of values. */
export const FilterSelect = (props: Given & { readonly options: ReadonlyArray<string> }) => (
  <select
    aria-label={props.label}
    value={props.route.query.get(props.name) ?? ""}
    onChange={(event) => change(props, event.currentTarget.value)}
  >
    <option value="">Any {props.name}</option>
    {props.options.map((option) => (
      <option key={option}>{option}</option>
    ))}
  </select>
)
