import { useEffect, useState } from "preact/hooks"

/** A field that keeps unsubmitted text when the page re-renders with new data. */
export const DraftInput = (props: {
  readonly label: string
  /** Placeholder, if it is not the label. */
  readonly hint?: string
  readonly type: "search" | "number"
  readonly value: string
  /** Called on Enter or blur. */
  readonly onGive: (text: string) => void
  readonly width?: string
  /** Whether the `/` shortcut focuses this field. */
  readonly main?: boolean
}) => {
  const { hint, label, main = false, onGive, type, value, width = "" } = props
  const [draft, setDraft] = useState(value)
  useEffect(() => setDraft(value), [value])
  const field = {
    "aria-label": label,
    class: width,
    value: draft,
    onInput: (event: { currentTarget: HTMLInputElement }) => setDraft(event.currentTarget.value),
    onChange: (event: { currentTarget: HTMLInputElement }) => onGive(event.currentTarget.value)
  }
  return type === "number" ? (
    <input type="number" min={0} step="any" {...field} />
  ) : (
    <input type="search" placeholder={hint ?? label} data-search={main || undefined} {...field} />
  )
}
