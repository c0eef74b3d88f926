import { useState } from "preact/hooks"
import { Suggestions } from "./Suggestions"

/** A text field that adds a value and clears itself. */
export const AddInput = (props: {
  readonly id: string
  readonly label: string
  /** Called on Enter or blur. */
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
      <Suggestions id={id} of={suggestions} />
    </>
  )
}
