import { chosenTimeStyle } from "../TimeStyle"

/** Formats an instant for `datetime-local`: a time of the zone, without naming it. */
const fieldText = (instant: string, isUtc: boolean): string => {
  const at = new Date(instant)
  if (Number.isNaN(at.getTime())) return ""
  const offset = isUtc ? 0 : at.getTimezoneOffset()
  return new Date(at.getTime() - offset * 60_000).toISOString().slice(0, 16)
}

/** An instant field, in UTC if times are shown in UTC, otherwise in local time. */
export const InstantInput = (props: {
  readonly label: string
  /** RFC 3339, or empty. */
  readonly value: string
  readonly onGive: (instant: string) => void
}) => {
  const isUtc = chosenTimeStyle() === "utc"
  const read = (text: string) => (text === "" ? "" : new Date(isUtc ? `${text}Z` : text).toISOString())
  return (
    <label class="field">
      {props.label}
      {isUtc ? " (UTC)" : ""}
      <input
        type="datetime-local"
        value={fieldText(props.value, isUtc)}
        onChange={({ currentTarget: { value } }) => props.onGive(read(value))}
      />
    </label>
  )
}
