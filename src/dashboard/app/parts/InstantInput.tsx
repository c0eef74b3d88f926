/** Formats an instant for `datetime-local`: local time without a zone. */
const localText = (instant: string): string => {
  const at = new Date(instant)
  if (Number.isNaN(at.getTime())) return ""
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

/** An instant field in local time. */
export const InstantInput = (props: {
  readonly label: string
  /** RFC 3339, or empty. */
  readonly value: string
  readonly onGive: (instant: string) => void
}) => (
  <label class="field">
    {props.label}
    <input
      type="datetime-local"
      value={localText(props.value)}
      onChange={({ currentTarget: { value } }) => props.onGive(value === "" ? "" : new Date(value).toISOString())}
    />
  </label>
)
