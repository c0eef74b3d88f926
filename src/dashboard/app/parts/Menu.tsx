import type { ComponentChildren } from "preact"
import { useEffect, useId, useRef } from "preact/hooks"

/** Pixels below a button that its menu may need. */
const room = 220

/** A quiet button that opens a menu of actions. Escape, a click elsewhere and every action close it. */
export const Menu = (props: { readonly label: string; readonly children: ComponentChildren }) => {
  const id = useId()
  const button = useRef<HTMLButtonElement>(null)
  const menu = useRef<HTMLFieldSetElement>(null)
  const hide = () => menu.current?.matches(":popover-open") && menu.current.hidePopover()
  useEffect(() => menu.current?.addEventListener("click", hide), [])
  // In the top layer, so that a table that scrolls does not cut it off.
  const place = (event: { readonly newState: string }) => {
    const [style, at] = [menu.current?.style, button.current?.getBoundingClientRect()]
    if (event.newState !== "open" || style === undefined || at === undefined) return
    const isAbove = at.bottom + room > innerHeight && at.top > room
    style.right = `${document.documentElement.clientWidth - at.right}px`
    style.top = isAbove ? "auto" : `${at.bottom + 4}px`
    style.bottom = isAbove ? `${innerHeight - at.top + 4}px` : "auto"
    for (const moved of ["scroll", "resize"]) addEventListener(moved, hide, { once: true, passive: true })
  }
  return (
    <>
      <button type="button" class="more" ref={button} popovertarget={id} aria-label={props.label} title={props.label}>
        ⋯
      </button>
      <fieldset id={id} ref={menu} class="card menu" popover="auto" aria-label={props.label} onBeforeToggle={place}>
        {props.children}
      </fieldset>
    </>
  )
}
