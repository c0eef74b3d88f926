import { describe, expect, it } from "vitest"
import { edit } from "../../src/fleet/move/ListEdit.js"

const head = "# cells\ncells:\n  a: { database: postgres://a/a }\n  b: { database: postgres://b/b }\n"

describe("the change of a list", () => {
  it.each([
    ["a name", "queues:\n  mail: a # why\n  other: b\n", "queues:\n  mail: b # why\n  other: b\n"],
    ["a divided queue", "queues:\n  mail: { cells: [a, b], by: key }\n", "queues:\n  mail: b\n"],
    [
      "several lines",
      "queues:\n  mail:\n    cells: [a, b]\n    by: key\n  x: a\n",
      "queues:\n  mail:\n    b\n  x: a\n"
    ],
    ["a new queue", "queues:\n  # first\n  other: b\n", "queues:\n  # first\n  mail: b\n  other: b\n"],
    ["one line", "queues: { other: b }\n", "queues: { mail: b, other: b }\n"],
    ["an empty object", "queues: {}\n", "queues: { mail: b }\n"],
    ["no queues", "", "queues:\n  mail: b\n"]
  ])("writes another cell: %s", (_, before, after) => {
    const text = `${head}default: a\n${before}`
    expect(edit(text, "mail", ["b"])?.text).toBe(`${head}default: a\n${after}`)
  })

  it("writes several cells, and says which lines it has changed", () => {
    const edited = edit(`${head}queues:\n  mail: a\ndefault: a\n`, "mail", ["a", "b"])
    expect(edited?.lines).toEqual(["-   mail: a", "+   mail: { cells: [a, b], by: key }"])
  })

  it("leaves a form that it cannot change safely to the operator", () => {
    const text = '{ "cells": { "a": { "database": "postgres://a/a" } } }'
    expect(edit(text, "mail", ["a"])).toBeUndefined()
  })
})
