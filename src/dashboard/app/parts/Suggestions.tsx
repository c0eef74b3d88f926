/** The suggestions of the text fields whose `list` is this id. */
export const Suggestions = ({ id, of }: { readonly id: string; readonly of: ReadonlyArray<string> }) => (
  <datalist id={id}>
    {of.map((text) => (
      <option key={text} value={text} />
    ))}
  </datalist>
)
