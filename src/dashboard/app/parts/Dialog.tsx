import type { ComponentChildren } from "preact"
import { useEffect, useRef } from "preact/hooks"

/** Something to decide before going on. Escape means no; the focus goes back to where it came from. */
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
