/** Says what went wrong, where there is something to say. */
export const Failure = ({ text }: { readonly text: string | undefined }) =>
  text === undefined ? null : (
    <div class="failure" role="alert">
      {text}
    </div>
  )
