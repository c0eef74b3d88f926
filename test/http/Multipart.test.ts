import { describe, expect, it } from "@effect/vitest"
import { Either } from "effect"
import * as fc from "effect/FastCheck"
import * as ContentDisposition from "../../src/http/uploads/ContentDisposition.js"
import { boundaryOf, MultipartParser } from "../../src/http/uploads/MultipartParser.js"
import { growth, linear } from "../support/Growth.js"
import { isLong } from "../support/Scale.js"

interface Read {
  readonly head: Record<string, string>
  readonly content: string
  readonly whole: boolean
}

/** Feeds a body in pieces of these sizes, repeated; returns the parts or the error. */
const read = (body: Buffer, sizes: ReadonlyArray<number>): ReadonlyArray<Read> | string => {
  const parser = new MultipartParser("XbX")
  const parts: Array<{ head: Record<string, string>; content: Array<Buffer>; whole: boolean }> = []
  let turn = 0
  for (let start = 0; start < body.length; ) {
    const size = Math.max(1, sizes[turn % sizes.length] ?? 1)
    const events = parser.write(body.subarray(start, start + size))
    if (Either.isLeft(events)) return events.left
    for (const event of events.right) {
      const part = parts.at(-1)
      if (event._tag === "PartBegins") parts.push({ head: Object.fromEntries(event.head), content: [], whole: false })
      else if (event._tag === "Content") part?.content.push(Buffer.from(event.bytes))
      else if (part !== undefined) part.whole = true
    }
    start += size
    turn += 1
  }
  if (!parser.isOver) return "not over"
  return parts.map(({ content, head, whole }) => ({ head, content: Buffer.concat(content).toString("latin1"), whole }))
}

const body = (...contents: ReadonlyArray<string>) =>
  Buffer.from(
    `${contents.map((content, n) => `--XbX\r\nContent-Disposition: form-data; name="f${n}"\r\n\r\n${content}\r\n`).join("")}--XbX--\r\n`,
    "latin1"
  )

describe("a multipart body", () => {
  it("is parsed the same wherever it is split", () => {
    const traps = ["\r", "\n", "-", "--", "--XbX", "\r\n--Xb", "\r\n--", "\r\n\r\n", "x", "XbX", "\u0000"]
    const content = fc
      .array(fc.constantFrom(...traps), { maxLength: 12 })
      .map((pieces) => pieces.join(""))
      // A delimiter in the content would end it: real writers choose another boundary.
      .filter((text) => !`\r\n${text}\r\n--XbX`.slice(0, -7).includes("\r\n--XbX"))
    fc.assert(
      fc.property(
        fc.array(content, { minLength: 1, maxLength: 4 }),
        fc.array(fc.integer({ min: 1, max: 24 }), { minLength: 1, maxLength: 5 }),
        (contents, sizes) => {
          const parts = read(body(...contents), sizes)
          expect(parts).toEqual(
            contents.map((text, n) => ({
              head: { "content-disposition": `form-data; name="f${n}"` },
              content: text,
              whole: true
            }))
          )
        }
      ),
      { numRuns: isLong ? 1_000 : 200 }
    )
  })

  it("may have text before and after it, padding, and parts without headers", () => {
    const odd = "before\r\n--XbX \t\r\nA: b\r\n\r\none\r\n--XbX\r\n\r\ntwo\r\n--XbX--after\r\n--XbX\r\n"
    for (const size of [1, 2, 3, 1000]) {
      expect(read(Buffer.from(odd), [size])).toEqual([
        { head: { a: "b" }, content: "one", whole: true },
        { head: {}, content: "two", whole: true }
      ])
    }
  })

  it("is refused when it is malformed, wherever it is split", () => {
    const whole = body("content").toString("latin1")
    for (const size of [1, 2, 1000]) {
      for (let end = 0; end < whole.length - "--\r\n".length; end += 1) {
        expect(read(Buffer.from(whole.slice(0, end)), [size])).toBe("not over")
      }
      expect(read(Buffer.from("--XbXnot\r\n\r\n\r\n--XbX--"), [size])).toMatch(/boundary/)
      expect(read(Buffer.from("--XbX\r\nno header\r\n\r\n\r\n--XbX--"), [size])).toMatch(/headers/)
      expect(read(Buffer.from(`--XbX\r\nA: ${"x".repeat(20_000)}\r\n\r\n\r\n--XbX--`), [size])).toMatch(/too long/)
      expect(read(Buffer.from(`--XbX${" ".repeat(100)}\r\n\r\n\r\n--XbX--`), [size])).toMatch(/boundary/)
    }
  })

  it("takes time linear in its length, whatever it contains", () => {
    const part = (head: string) => `--XbX\r\n${head}\r\n\r\n\r\n`
    const bodies: ReadonlyArray<(size: number) => string> = [
      (size) => part(`X: a${" ".repeat(size)}b`),
      (size) => part(`X: a${"\t ".repeat(size / 2)}`),
      (size) => part(`X${":".repeat(size)}`),
      (size) => part("A: b\r\n".repeat(size / 6)),
      (size) => part(`X: ${"\r".repeat(size)}`),
      (size) => part(`${"x".repeat(size)}`),
      (size) => `--XbX\r\n\r\n${"\r\n--Xb".repeat(size / 6)}\r\n--XbX--`,
      (size) => `--XbX\r\n\r\n${"\r\n".repeat(size / 2)}\r\n--XbX--`,
      (size) => `${"\r\n--XbX\r\n\r\n".repeat(size / 11)}\r\n--XbX--`
    ]
    for (const sizes of isLong ? [[1], [7], [65_536]] : [[7]]) {
      for (const body of bodies) {
        expect(growth((size) => void read(Buffer.from(body(size)), sizes), 1_900)).toBeLessThan(linear)
      }
    }
  })

  it("is parsed or refused, and never throws, whatever it contains", () => {
    const traps = [
      "--XbX",
      "\r\n",
      "\r",
      "\n",
      "--",
      ":",
      "A: b",
      " ",
      '"',
      "\u0000",
      "é",
      "x".repeat(300),
      "*=UTF-8''%z"
    ]
    const text = fc.array(fc.oneof(fc.constantFrom(...traps), fc.string()), { maxLength: 40 })
    fc.assert(
      fc.property(text, fc.integer({ min: 1, max: 64 }), (pieces, size) => {
        const body = Buffer.from(`--XbX\r\n${pieces.join("")}`)
        expect(read(body, [size])).toEqual(read(body, [body.length]))
      }),
      { numRuns: isLong ? 1_000 : 200 }
    )
  })

  it("declares its boundary in its content type", () => {
    const right = { _tag: "Right" }
    expect(boundaryOf("multipart/form-data; boundary=abc")).toMatchObject({ ...right, right: "abc" })
    expect(boundaryOf('Multipart/Form-Data; charset=utf-8; boundary="a b:c"')).toMatchObject({
      ...right,
      right: "a b:c"
    })
    for (const wrong of [
      undefined,
      "",
      "text/plain",
      "multipart/mixed; boundary=abc",
      "multipart/form-data",
      "multipart/form-data; boundary=",
      `multipart/form-data; boundary=${"x".repeat(71)}`,
      "multipart/form-data; boundary=a\u0000b"
    ]) {
      expect(Either.isLeft(boundaryOf(wrong))).toBe(true)
    }
  })
})

describe("a part's disposition", () => {
  it.each([
    ['form-data; name="files"; filename="a.txt"', { name: "files", filename: "a.txt" }],
    ['form-data; name="files"', { name: "files", filename: undefined }],
    ["form-data; name=files; filename=a.txt", { name: "files", filename: "a.txt" }],
    ['FORM-DATA;name="files";filename=""', { name: "files", filename: "" }],
    ['form-data; name="files"; filename="报告.pdf"', { name: "files", filename: "报告.pdf" }],
    ['form-data; name="files"; filename="a\\"b.txt"', { name: "files", filename: 'a"b.txt' }],
    ['form-data; name="files"; filename="C:\\dir\\a.txt"', { name: "files", filename: "C:\\dir\\a.txt" }],
    ["form-data; name=\"files\"; filename*=UTF-8''na%C3%AFve.txt", { name: "files", filename: "naïve.txt" }],
    [`form-data; name="files"; filename="x"; filename*=UTF-8''%zz`, { name: "files", filename: "x" }],
    ["form-data; name=\"files\"; filename*=iso-8859-1'en'na%EFve.txt", { name: "files", filename: "naïve.txt" }],
    // A browser percent-encodes quotes and line breaks; other percent signs stay.
    ['form-data; name="files"; filename="a%22b%0D%0A%41 100%.txt"', { name: "files", filename: 'a"b\r\n%41 100%.txt' }],
    ['form-data; filename="a.txt"', undefined],
    ['attachment; name="files"', undefined],
    ['form-data; name="files', undefined],
    ["", undefined]
  ])("%j", (header, expected) => {
    expect(ContentDisposition.parse(header)).toEqual(expected)
  })
})
