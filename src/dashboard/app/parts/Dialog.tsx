import type { ComponentChildren } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import { EnvironmentTag } from "../Environment"

/** A modal dialog. Escape closes it. Its end restores the focus. */
export const Dialog = (props: {
  readonly title: string
  /** Replaces the card with a title; the title is read to screen readers only. */
  readonly bare?: string
  readonly onClose: () => void
  readonly children: ComponentChildren
}) => {
  const place = useRef<HTMLDialogElement>(null)
  const [before] = useState(() => document.activeElement)
  useEffect(() => {
    place.current?.showModal()
    // The browser restores the focus of a dialog that is closed, but not of one that is removed. Until it is removed,
    // nothing outside can have the focus.
    return () =>
      void requestAnimationFrame(() => {
        if (before instanceof HTMLElement && document.activeElement === document.body) before.focus()
      })
  }, [])
  return (
    <dialog class={`card dialog ${props.bare ?? ""}`} aria-label={props.title} ref={place} onClose={props.onClose}>
      {props.bare === undefined ? (
        <>
          <header>
            <h2>{props.title}</h2>
            <EnvironmentTag />
          </header>
          <div class="body">{props.children}</div>
        </>
      ) : (
        props.children
      )}
    </dialog>
  )
}

/** A panel at the right edge, beside which the page stays usable. Escape closes it and restores the focus. */
export const Drawer = (props: {
  readonly title: string
  readonly onClose: () => void
  readonly children: ComponentChildren
}) => {
  const place = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    place.current?.show()
    // The focus may be on the page, or nowhere after a button has gone.
    const close = ({ key }: KeyboardEvent) =>
      key === "Escape" && document.querySelector("dialog:modal") === null && place.current?.close()
    addEventListener("keydown", close)
    return () => removeEventListener("keydown", close)
  }, [])
  return (
    <dialog class="card dialog drawer" aria-label={props.title} ref={place} onClose={props.onClose}>
      <header>
        <h2>{props.title}</h2>
        <form method="dialog" class="side">
          <button type="submit">Close</button>
        </form>
      </header>
      {props.children}
    </dialog>
  )
}
