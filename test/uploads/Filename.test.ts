import { describe, expect, it } from "@effect/vitest"
import * as fc from "effect/FastCheck"
import * as Filename from "../../src/uploads/Filename.js"
import { faultOfNames } from "../../src/uploads/Upload.js"

describe("a file's safe name", () => {
  it.each([
    ["report.pdf", "report.pdf"],
    ["my holiday photo (1).jpeg", "my_holiday_photo__1_.jpeg"],
    ["../../etc/passwd", "passwd"],
    ["/etc/shadow", "shadow"],
    ["C:\\Windows\\system32\\cmd.exe", "cmd.exe"],
    ["a/b\\c.txt", "c.txt"],
    ["dir/", "file"],
    ["", "file"],
    [".", "file"],
    ["..", "file"],
    ["......", "file"],
    [".bashrc", "bashrc"],
    ["...x...", "x"],
    ["archive.tar.gz", "archive.tar.gz"],
    ["nul\u0000byte.txt", "nul_byte.txt"],
    ["line\r\nbreak.txt", "line__break.txt"],
    ["rtl\u202ecod.exe", "rtl_cod.exe"],
    ["zero\u200bwidth.txt", "zero_width.txt"],
    ["résumé.pdf", "resume.pdf"],
    ["报告.pdf", "__.pdf"],
    ["😀.png", "_.png"],
    // Full-width characters, a dot leader and a division slash: some systems read them as / and .
    ["．．／．．／etc／passwd", "passwd"],
    ["‥/x", "x"],
    ["a∕b", "a_b"],
    ["quote\"'`$(rm -rf).sh", "quote_____rm_-rf_.sh"],
    ["\ud800lone.txt", "_lone.txt"],
    // Names of devices on Windows, whatever follows the dot.
    ["nul", "_nul"],
    ["CON.tar.gz", "_CON.tar.gz"],
    ["com1.txt", "_com1.txt"],
    ["C:\\logs\\Aux .txt", "Aux_.txt"],
    ["console.log", "console.log"]
  ])("%j becomes %j", (given, expected) => {
    expect(Filename.sanitize(given)).toBe(expected)
  })

  it("of ten kilobytes is cut, and keeps its extension", () => {
    expect(Filename.sanitize(`${"x".repeat(10_240)}.pdf`)).toBe(`${"x".repeat(96)}.pdf`)
    expect(Filename.sanitize(`/${"deep/".repeat(3000)}a.txt`)).toBe("a.txt")
    expect(Filename.sanitize("x".repeat(10_240))).toBe("x".repeat(100))
    expect(Filename.sanitize(`name.${"e".repeat(50)}`)).toBe(`name.${"e".repeat(50)}`)
    expect(Filename.sanitize(`${"n".repeat(200)}.${"e".repeat(50)}`)).toHaveLength(100)
    // Windows drops a dot at the end.
    expect(Filename.sanitize(`${"n".repeat(99)}.${"e".repeat(50)}`)).toBe("n".repeat(99))
    expect(Filename.sanitize(`nul.${"e".repeat(200)}`)).toHaveLength(100)
  })

  it("is safe for any input, and idempotent", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: "binary" }), fc.string({ unit: "grapheme" }), fc.string()), (given) => {
        const name = Filename.sanitize(given)
        expect(name).toMatch(/^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$/)
        expect(Filename.sanitize(name)).toBe(name)
      }),
      { numRuns: 500 }
    )
  })
})

describe("a file's original name", () => {
  it.each([
    ["report.pdf", "report.pdf"],
    ["my holiday photo (1).jpeg", "my holiday photo (1).jpeg"],
    ["résumé – naïve.pdf", "résumé – naïve.pdf"],
    // Decomposed as macOS sends it, and kept that way.
    ["re\u0301sume\u0301.pdf", "re\u0301sume\u0301.pdf"],
    ["报告.pdf", "报告.pdf"],
    ["تقرير.pdf", "تقرير.pdf"],
    ["می\u200cخواهم.txt", "می\u200cخواهم.txt"],
    ["👩\u200d👩\u200d👧.png", "👩\u200d👩\u200d👧.png"],
    ["quote\"'`$(rm -rf).sh", "quote\"'`$(rm -rf).sh"],
    [".bashrc", ".bashrc"],
    ["../../etc/passwd", "passwd"],
    ["C:\\Windows\\報告.txt", "報告.txt"],
    ["dir/", "file"],
    ["", "file"],
    [".", "file"],
    ["..", "file"],
    ["nul\u0000byte.txt", "nul_byte.txt"],
    ["line\r\nbreak\u2028.txt", "line__break_.txt"],
    ["\u009bcsi.txt", "_csi.txt"],
    ["invoice\u202efdp.exe", "invoice_fdp.exe"],
    ["\ud800lone.txt", "_lone.txt"]
  ])("%j is kept as %j", (given, expected) => {
    expect(Filename.original(given)).toBe(expected)
  })

  it("of ten kilobytes is cut between characters, and keeps its extension", () => {
    expect(Filename.original(`${"é".repeat(10_240)}.pdf`)).toBe(`${"é".repeat(251)}.pdf`)
    expect(Filename.original(`${"😀".repeat(5000)}.pdf`)).toBe(`${"😀".repeat(125)}.pdf`)
    expect(Filename.original("😀".repeat(5000))).toBe("😀".repeat(127))
  })

  it("can be stored for any input, and is idempotent", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: "binary" }), fc.string({ unit: "grapheme" }), fc.string()), (given) => {
        const name = Filename.original(given)
        expect(faultOfNames({ filename: name, mimetype: "" }, 0)).toBeUndefined()
        expect(name).not.toMatch(/[/\\\p{Cc}]|^\.{1,2}$/u)
        expect(Filename.original(name)).toBe(name)
      }),
      { numRuns: 500 }
    )
  })
})
