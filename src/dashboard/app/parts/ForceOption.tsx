/**
 * Checkbox to save what the server would reject: a payload that does not match its kind, or a kind that no pod has
 * registered.
 */
export const ForceOption = (props: { readonly force: boolean; readonly onChange: (force: boolean) => void }) => (
  <label class="check">
    <input type="checkbox" checked={props.force} onChange={(event) => props.onChange(event.currentTarget.checked)} />
    Save without checks
  </label>
)
