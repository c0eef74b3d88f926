import { type Route, refine } from "../Route"

/** Buttons for older rows and back to the newest. The cursor is in the URL. */
export const Pager = (props: {
  readonly next: string | null
  readonly route: Route
  /** Name of the button for the next page [Older]. */
  readonly name?: string
}) => {
  const { name = "Older", next, route } = props
  const isFirst = route.query.get("cursor") === null
  if (next === null && isFirst) return null
  return (
    <div class="pager row">
      {isFirst ? null : (
        <button type="button" onClick={() => refine(route, { cursor: undefined })}>
          Newest
        </button>
      )}
      {next === null ? null : (
        <button type="button" onClick={() => refine(route, { cursor: next })}>
          {name}
        </button>
      )}
    </div>
  )
}
