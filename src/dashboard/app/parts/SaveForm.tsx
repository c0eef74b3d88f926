import type { ComponentChildren } from "preact"
import { useState } from "preact/hooks"
import { Failure } from "./Failure"

/** A SyntaxError can only come from the JSON that the user typed. */
const wordsOf = (error: unknown): string => {
  if (error instanceof SyntaxError) return `The payload is not valid JSON: ${error.message}`
  return error instanceof Error ? error.message : String(error)
}

/** A form that prevents double submits and shows errors above its button. */
export const SaveForm = (props: {
  readonly label: string
  /** Name of the submit button [Save]. */
  readonly name?: string
  readonly danger?: boolean
  readonly disabled?: boolean
  /** Called on submit. Rejects with the message to show. */
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
      <div class="row actions">
        <button
          type="submit"
          class={props.danger === true ? "primary danger" : "primary"}
          disabled={busy || props.disabled === true}
        >
          {props.name ?? "Save"}
        </button>
        {props.onCancel === undefined ? null : (
          // Has the focus when a dangerous dialog opens, so that Enter does no harm.
          <button type="button" autofocus={props.danger === true} onClick={props.onCancel}>
            Close
          </button>
        )}
      </div>
    </form>
  )
}
