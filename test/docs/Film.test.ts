import { readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { root } from "../support/Nightshift.js"

/** The chunks of a WebP file: name and data. */
const chunksOf = (file: Buffer) => {
  const chunks: Array<{ readonly name: string; readonly data: Buffer }> = []
  for (let at = 12; at < file.length; ) {
    const size = file.readUInt32LE(at + 4)
    chunks.push({ name: file.toString("ascii", at, at + 4), data: file.subarray(at + 8, at + 8 + size) })
    at += 8 + size + (size % 2)
  }
  return chunks
}

describe("the film of README.md", () => {
  it("is an animation of less than a megabyte, in which every frame lies inside the picture", () => {
    const file = readFileSync(join(root, "docs/pictures/film.webp"))
    expect(file.length).toBeLessThan(1_000_000)
    expect(file.readUInt32LE(4)).toBe(file.length - 8)
    const [head, animation, ...frames] = chunksOf(file)
    expect([head?.name, animation?.name]).toEqual(["VP8X", "ANIM"])
    const [width = 0, height = 0] = [4, 7].map((at) => (head?.data.readUIntLE(at, 3) ?? 0) + 1)
    expect(frames.length).toBeGreaterThan(40)
    for (const { data, name } of frames) {
      const [x = 0, y = 0, w = 0, h = 0, duration = 0] = [0, 3, 6, 9, 12].map((at) => data.readUIntLE(at, 3))
      expect([name, data.toString("ascii", 16, 20)]).toEqual(["ANMF", "VP8 "])
      expect(2 * x + w + 1).toBeLessThanOrEqual(width)
      expect(2 * y + h + 1).toBeLessThanOrEqual(height)
      expect(duration).toBeGreaterThan(0)
    }
    const seconds = frames.reduce((sum, { data }) => sum + data.readUIntLE(12, 3), 0) / 1_000
    expect(seconds).toBeLessThan(60)
    expect(readFileSync(join(root, "README.md"), "utf8")).toContain("docs/pictures/film.webp")
  })
})
