import { useState } from "preact/hooks"

/** Copies text. Pages without TLS have no clipboard, so the text is selected there and copied as the user would. */
export const copyText = async (text: string, beside: HTMLElement): Promise<void> => {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text)
  const field = document.createElement("textarea")
  field.className = "visually-hidden"
  field.value = text
  beside.append(field)
  field.select()
  document.execCommand("copy")
  field.remove()
}

/** A button that copies text. */
export const CopyButton = ({ label, text }: { readonly label: string; readonly text: string }) => {
  const [copied, setCopied] = useState<string>()
  return (
    <button
      type="button"
      class="link small"
      aria-label={`Copy ${label}`}
      onClick={({ currentTarget: { parentElement } }) =>
        parentElement !== null && void copyText(text, parentElement).then(() => setCopied(text))
      }
    >
      {copied === text ? "Copied" : "Copy"}
    </button>
  )
}

/** Commands or code to copy. */
export const Snippet = ({ label, text }: { readonly label: string; readonly text: string }) => (
  <div class="json-box">
    <CopyButton label={label} text={text} />
    <pre>{text}</pre>
  </div>
)
