/** An error message, if any. */
export const Failure = ({ text }: { readonly text: string | undefined }) =>
  text === undefined ? null : (
    <div class="failure" role="alert">
      {text}
    </div>
  )
