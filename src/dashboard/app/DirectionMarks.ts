import { type ComponentChildren, Fragment, options } from "preact"

// A direction mark such as U+202E in a name, a message or a payload reorders the text around it: `gpj.exe` reads as
// `exe.jpg`. Every text of a page shows such marks instead, as the command line does. Fields keep what was typed.

const marks = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

const hex = (mark: string) => (mark.codePointAt(0) ?? 0).toString(16).padStart(4, "0")

/** Text with its direction marks as `\u{202e}`. */
export const shown = (text: string): string => text.replace(marks, (mark) => `\\u{${hex(mark)}}`)

/** JSON with its direction marks as escapes, so that it is the same value. */
export const shownJson = (json: string): string => json.replace(marks, (mark) => `\\u${hex(mark)}`)

const shownChildren = (children: ComponentChildren): ComponentChildren => {
  if (typeof children === "string") return shown(children)
  return Array.isArray(children) ? children.map(shownChildren) : children
}

/** Attributes that browsers display or read aloud. */
const spoken = ["title", "aria-label"]

const before = options.vnode
options.vnode = (node) => {
  if (typeof node.type === "string" || node.type === Fragment) {
    const props = node.props as Record<string, unknown>
    if (props.children !== undefined) props.children = shownChildren(props.children as ComponentChildren)
    for (const name of spoken) {
      const text = props[name]
      if (typeof text === "string") props[name] = shown(text)
    }
  }
  before?.(node)
}
