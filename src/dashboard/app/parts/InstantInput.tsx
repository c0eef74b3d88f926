/** An instant as the browser's field writes it: in the time of whoever looks, without a zone. */
const localText = (instant: string): string => {
  const at = new Date(instant)
  if (Number.isNaN(at.getTime())) return ""
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

/** A field for an instant, of whose zone nobody has to think. */
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
