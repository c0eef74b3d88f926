import { describe, expect, it } from "@effect/vitest"
import { stripMimeType } from "../../src/uploads/Upload.js"

const octets = "application/octet-stream"

describe("a content's type", () => {
  it.each([
    ["text/plain", "text/plain"],
    ["Text/HTML; charset=utf-8", "text/html"],
    ["  image/svg+xml  ", "image/svg+xml"],
    [
      "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
      "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    ],
    ["application/vnd.ms-excel", "application/vnd.ms-excel"],
    ["", octets],
    ["nonsense", octets],
    ["text/", octets],
    ["/plain", octets],
    ["text/plain/x", octets],
    ["text/pl ain", octets],
    ["text/html\r\nX-Injected: 1", octets],
    ["text/plain\u0000", octets],
    [`text/${"x".repeat(500)}`, octets]
  ])("%j becomes %s", (given, expected) => {
    expect(stripMimeType(given)).toBe(expected)
  })
})
