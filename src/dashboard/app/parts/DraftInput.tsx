import { useEffect, useState } from "preact/hooks"

/** A field whose text is the typist's until it is given: news that is drawn meanwhile does not take it away. */
export const DraftInput = (props: {
  readonly label: string
  readonly type: "search" | "number"
  readonly value: string
  /** Told of the text when Enter is pressed or the field is left. */
  readonly onGive: (text: string) => void
  readonly width?: string
  /** Whether it is the field that `/` goes to. */
  readonly main?: boolean
}) => {
  const { label, main = false, onGive, type, value, width = "" } = props
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
    <input type="search" placeholder={label} data-search={main || undefined} {...field} />
  )
}
