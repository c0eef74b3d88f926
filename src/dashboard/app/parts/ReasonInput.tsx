/** The reason for a change, which the audit log keeps. */
export const ReasonInput = (props: { readonly value: string; readonly onChange: (reason: string) => void }) => (
  <label class="field">
    Reason (for the audit log)
    <input value={props.value} onInput={(event) => props.onChange(event.currentTarget.value)} />
  </label>
)

/** The field of a request with the reason, if there is one. */
export const given = (reason: string): { readonly reason?: string } => (reason === "" ? {} : { reason })
