import { describe, expect, it } from "vitest"
import { lineOf, locate, withField, withValue } from "../../src/dashboard/app/JsonText.js"
import { exampleOf, faultsOf, fieldsOf } from "../../src/dashboard/app/PayloadSchema.js"

const schema = {
  $ref: "#/$defs/Order",
  $defs: {
    Order: {
      type: "object",
      required: ["id", "size", "lines"],
      properties: {
        id: { type: "integer", minimum: 1 },
        size: { enum: ["small", "large"] },
        email: { type: "string", pattern: "@" },
        lines: { type: "array", items: { $ref: "#/$defs/Line" } },
        to: { anyOf: [{ type: "string" }, { type: "null" }] }
      }
    },
    Line: { type: "object", required: ["sku"], properties: { sku: { type: "string" } } }
  }
}

describe("the faults of a payload", () => {
  it("name the field, and what it must be", () => {
    const faults = faultsOf(schema, { id: "7", size: "huge", lines: [{ sku: "a" }, {}], to: 3 })
    expect(faults.map(({ message, path }) => `${path.join(".")} ${message}`).sort()).toEqual([
      "id must be an integer",
      "lines.1.sku is required",
      'size must be one of "small", "large"',
      "to matches none of the allowed forms"
    ])
    expect(faults.find(({ path }) => path[0] === "size")?.choices).toEqual(['"small"', '"large"'])
  })

  it("are none if the payload is valid, if only a pattern differs, and if the schema cannot be read", () => {
    expect(faultsOf(schema, { id: 1, size: "small", lines: [], email: "none" })).toEqual([])
    expect(faultsOf({ $ref: "#/nowhere" }, {})).toEqual([])
  })

  it("are none in the example, which has all required fields", () => {
    const example = exampleOf(schema)
    expect(example).toEqual({ id: 1, size: "small", lines: [] })
    expect(faultsOf(schema, example)).toEqual([])
    expect(fieldsOf(schema).map(({ name, required }) => `${name}${required ? "!" : ""}`)).toEqual([
      "id!",
      "size!",
      "email",
      "lines!",
      "to"
    ])
  })
})

describe("a value in JSON text", () => {
  const text = '{\n  "a": [1, {"b\\"": 12345678901234567890}],\n  "c": "x, y"\n}'

  it("is found by its path, or else the closest value around it", () => {
    const found = (...path: ReadonlyArray<string>) => {
      const { from, to } = locate(text, path)
      return text.slice(from, to)
    }
    expect(found("a", "1", 'b"')).toBe("12345678901234567890")
    expect(found("a", "0")).toBe("1")
    expect(found("c")).toBe('"x, y"')
    expect(found("c", "d")).toBe('"x, y"')
    expect(found("nothing")).toBe(text)
    expect(lineOf(text, locate(text, ["c"]).from)).toBe(2)
  })

  it("is replaced without touching the others, and a field is added to the object", () => {
    expect(withValue(text, ["c"], "7")).toBe(text.replace('"x, y"', "7"))
    expect(JSON.parse(withField("{}", "n", "[\n  1\n]"))).toEqual({ n: [1] })
    expect(withField(text, "n", "1")).toContain("12345678901234567890")
    expect(JSON.parse(withField(text, "n", "1"))).toMatchObject({ c: "x, y", n: 1 })
    expect(withField("[1]", "n", "1")).toBe("[1]")
    expect(withField("{ broken", "n", "1")).toBe("{ broken")
  })
})
