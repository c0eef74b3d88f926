import { useState } from "preact/hooks"

/** A field that gives away what was typed, and is empty again for the next. */
export const AddInput = (props: {
  readonly id: string
  readonly label: string
  /** Told of the text when Enter is pressed or the field is left. */
  readonly onGive: (text: string) => void
  readonly suggestions: ReadonlyArray<string>
}) => {
  const { id, label, onGive, suggestions } = props
  const [draft, setDraft] = useState("")
  const give = () => {
    setDraft("")
    if (draft.trim() !== "") onGive(draft.trim())
  }
  return (
    <>
      <input
        type="search"
        aria-label={label}
        placeholder={label}
        list={id}
        value={draft}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onChange={give}
      />
      <datalist id={id}>
        {suggestions.map((text) => (
          <option key={text} value={text} />
        ))}
      </datalist>
    </>
  )
}
