import type { ComponentChildren } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"

// A long list in chunks, of which only those near the viewport are in the page. The others are blank and as high as
// they were when they were last drawn.

/** Rows of a chunk. */
const chunkSize = 40

/** Pixels above and below the viewport in which chunks are drawn. */
const margin = 600

interface Given {
  /** Element of a chunk. */
  readonly as: "div" | "ol" | "tbody"
  readonly class?: string
  /** Usual height of a row in pixels. */
  readonly rowHeight: number
}

/** What is open in a chunk, such as a form, keeps it drawn. */
const isInUse = (element: Element) => element.querySelector('[aria-expanded="true"], form') !== null

const Chunk = (
  props: Given & {
    readonly first: number
    readonly count: number
    readonly rows: () => ReadonlyArray<ComponentChildren>
  }
) => {
  const { as: Element, class: of, count, first, rowHeight, rows } = props
  const place = useRef<HTMLElement>(null)
  const [isNear, setNear] = useState(first === 0)
  const [height, setHeight] = useState<number>()
  useEffect(() => {
    const element = place.current
    if (element === null) return
    const observer = new IntersectionObserver(
      (entries) => {
        const entry = entries.at(-1)
        if (entry === undefined || (!entry.isIntersecting && isInUse(element))) return
        if (!entry.isIntersecting) setHeight(entry.boundingClientRect.height)
        setNear(entry.isIntersecting)
      },
      { rootMargin: `${margin}px 0px` }
    )
    observer.observe(element)
    return () => observer.disconnect()
  }, [])
  const Blank = ({ div: "div", ol: "li", tbody: "tr" } as const)[Element]
  return (
    <Element class={of} ref={place as never} {...(Element === "ol" ? { start: first + 1 } : {})}>
      {isNear ? rows() : <Blank class="blank" style={{ height: `${height ?? count * rowHeight}px` }} />}
    </Element>
  )
}

/** Draws the rows of a list. A list of one chunk is drawn whole. */
export function Chunks<A>(
  props: Given & { readonly of: ReadonlyArray<A>; readonly row: (item: A) => ComponentChildren }
) {
  const { of, row, ...given } = props
  const { as: Element } = given
  if (of.length <= chunkSize) return <Element class={given.class}>{of.map(row)}</Element>
  return (
    <>
      {Array.from({ length: Math.ceil(of.length / chunkSize) }, (_, index) => {
        const first = index * chunkSize
        const part = of.slice(first, first + chunkSize)
        return <Chunk key={first} first={first} count={part.length} {...given} rows={() => part.map(row)} />
      })}
    </>
  )
}
