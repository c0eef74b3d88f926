import { describe, expect, it } from "@effect/vitest"
import { type Data, Equal } from "effect"
import * as Tagged from "../../src/core/Tagged.js"

type Shape = Data.TaggedEnum<{ Dot: {}; Square: { readonly side: number } }>
const Shape = Tagged.taggedEnum<Shape>({ Dot: true, Square: true })

describe("a tagged enum", () => {
  it("makes values that are distinguished by tag and compared by content", () => {
    expect(Shape.Square({ side: 2 })).toMatchObject({ _tag: "Square", side: 2 })
    expect(Equal.equals(Shape.Square({ side: 2 }), Shape.Square({ side: 2 }))).toBe(true)
    expect(Equal.equals(Shape.Square({ side: 2 }), Shape.Dot())).toBe(false)
    expect(Shape.$is("Dot")(Shape.Dot())).toBe(true)
    expect(Shape.$match(Shape.Square({ side: 3 }), { Dot: () => 0, Square: ({ side }) => side })).toBe(3)
  })

  it("has one constructor per tag, however often it is accessed", () => {
    expect(Shape.Square).toBe(Shape.Square)
  })
})
