import { useState } from "preact/hooks"

/** Lines and characters of an error that are shown before its fold. */
const maxLines = 12
const maxCharacters = 2_000

/** An error message, possibly with a stack trace: its beginning, and a button for the rest. */
export const ErrorText = ({ class: of, text }: { readonly class: "failure" | "text"; readonly text: string }) => {
  const [open, setOpen] = useState(false)
  const lines = text.split("\n")
  const head = lines.slice(0, maxLines).join("\n").slice(0, maxCharacters)
  if (head.length === text.length) return <pre class={of}>{text}</pre>
  return (
    <pre class={of}>
      {open ? text : `${head}\n…`}
      <button type="button" class="link small" aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? "Show less" : lines.length > maxLines ? `Show all ${lines.length} lines` : "Show all"}
      </button>
    </pre>
  )
}
