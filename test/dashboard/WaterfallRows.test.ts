import { describe, expect, it } from "vitest"
import type { Bar } from "../../src/dashboard/app/Waterfall.js"
import { familyBar, type Look, partAround, partsOf, rowsOf } from "../../src/dashboard/app/WaterfallRows.js"

const bar = (name: string, from: number, more: object = {}): Bar =>
  ({ key: name, name, kind: "run", colour: "done", from, to: from + 10, open: false, ...more }) as Bar

const children = (count: number, step = "ship", more: object = {}) =>
  Array.from({ length: count }, (_, index) =>
    bar(`${step} ${index}`, index, { child: { step }, detail: "done", ...more })
  )

const look = (more: Partial<Look> = {}): Look => ({ failedOnly: false, part: undefined, open: new Set(), ...more })

const keys = (bars: ReadonlyArray<Bar>, more: Partial<Look> = {}) => rowsOf(bars, look(more)).map(({ key }) => key)

describe("the rows of a waterfall", () => {
  it("fold many children of a step into one row, and show few", () => {
    expect(keys([bar("ship", 0), ...children(11), bar("bill", 20)])).toEqual(["ship", "family ship", "bill"])
    expect(keys([bar("ship", 0), ...children(3)])).toEqual(["ship", "ship 0", "ship 1", "ship 2"])
    expect(keys([...children(11), ...children(12, "mail")])).toEqual(["family ship", "family mail"])
    expect(keys(children(11), { open: new Set(["ship"]) })).toHaveLength(12)
  })

  it("say what happened to folded children, and take the colour of most", () => {
    const bars = [...children(11), ...children(2, "ship", { detail: "dead (exhausted)", colour: "dead" })]
    expect(partsOf(bars.toReversed())).toEqual([
      { count: 11, state: "done", colour: "done" },
      { count: 2, state: "dead (exhausted)", colour: "dead" }
    ])
    const [family] = rowsOf(bars, look())
    if (family === undefined || !("bars" in family)) throw new Error("no family")
    expect(familyBar(family)).toMatchObject({ colour: "done", from: 0, to: 20, name: "13 children of ship" })
  })

  it("are those of a part of the axis, or those that failed", () => {
    const bars = [bar("a", 0), bar("b", 50, { colour: "dead" }), bar("c", 100, { colour: "retrying" })]
    expect(keys(bars, { part: { start: 40, ends: 60 } })).toEqual(["b"])
    expect(keys(bars, { failedOnly: true })).toEqual(["b", "c"])
    expect(keys(bars, { failedOnly: true, part: { start: 0, ends: 20 } })).toEqual([])
  })

  it("cover a part of the axis that never leaves it", () => {
    const whole = { start: 100, ends: 200 }
    expect(partAround(whole, 150, 50)).toEqual({ start: 125, ends: 175 })
    expect(partAround(whole, 110, 50)).toEqual({ start: 100, ends: 150 })
    expect(partAround(whole, 195, 50)).toEqual({ start: 150, ends: 200 })
    expect(partAround(whole, 150, 100)).toBeUndefined()
  })
})
