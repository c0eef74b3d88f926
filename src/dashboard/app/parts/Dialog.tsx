import type { ComponentChildren } from "preact"
import { useEffect, useRef } from "preact/hooks"

/** A modal dialog. Escape closes it and restores the focus. */
export const Dialog = (props: {
  readonly title: string
  readonly onClose: () => void
  readonly children: ComponentChildren
}) => {
  const place = useRef<HTMLDialogElement>(null)
  useEffect(() => place.current?.showModal(), [])
  return (
    <dialog class="card dialog" aria-label={props.title} ref={place} onClose={props.onClose}>
      <header>
        <h2>{props.title}</h2>
      </header>
      <div class="body">{props.children}</div>
    </dialog>
  )
}
