import type { ComponentChildren } from "preact"
import { useState } from "preact/hooks"
import { Failure } from "./Failure"

/** JSON that somebody typed is the only thing here that is parsed. */
const wordsOf = (error: unknown): string => {
  if (error instanceof SyntaxError) return `The payload is not JSON: ${error.message}`
  return error instanceof Error ? error.message : String(error)
}

/** A form that saves once per press, and says what went wrong above the button that was pressed. */
export const SaveForm = (props: {
  readonly label: string
  /** What a press does; it fails with what is to be said. */
  readonly save: () => Promise<void>
  readonly onCancel?: () => void
  readonly children: ComponentChildren
}) => {
  const [failure, setFailure] = useState<string>()
  const [busy, setBusy] = useState(false)
  const submit = async (event: Event) => {
    event.preventDefault()
    setBusy(true)
    setFailure(undefined)
    try {
      await props.save()
    } catch (error) {
      setFailure(wordsOf(error))
    }
    setBusy(false)
  }
  return (
    <form class="stack" onSubmit={(event) => void submit(event)} aria-label={props.label}>
      {props.children}
      <Failure text={failure} />
      <div class="row">
        <button type="submit" class="primary" disabled={busy}>
          Save
        </button>
        {props.onCancel === undefined ? null : (
          <button type="button" onClick={props.onCancel}>
            Not now
          </button>
        )}
      </div>
    </form>
  )
}
