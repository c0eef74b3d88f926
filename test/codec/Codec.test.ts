import { randomBytes } from "node:crypto"
import { describe, expect, it } from "vitest"
import { DamagedValueError, MissingKeyError, parseKeys, type SealedText, seal } from "../../src/codec/index.js"

const key = (id: string) => ({ id, key: randomBytes(32) })
const [k1, k2] = [key("k1"), key("k2")]
const json = JSON.stringify({ to: "ada@example.org", note: "Zürich 🌍", numbers: [1, 2.5, null] })

/** A sealed value with one part of its text changed. */
const withPart = ({ key, text }: SealedText, part: number, change: (part: string) => string): SealedText => ({
  key,
  text: text
    .split(".")
    .map((each, index) => (index === part ? change(each) : each))
    .join(".")
})
const flipped = (part: string) => {
  const bytes = Buffer.from(part, "base64url")
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1
  return bytes.toString("base64url")
}

/** What a codec throws or rejects with. */
const errorOf = async (run: () => unknown): Promise<unknown> => {
  try {
    await run()
  } catch (error) {
    return error
  }
  throw new Error("it did not fail")
}

describe("seal", () => {
  it("returns the value, of which the sealed text shows nothing but the key", async () => {
    const codec = seal({ keys: [k1] })
    const sealed = await codec.seal(json)
    expect(sealed.key).toBe("k1")
    expect(sealed.text).toMatch(/^1\.n\.[\w-]+\.[\w-]+$/)
    const bytes = Buffer.from(sealed.text.split(".")[3] ?? "", "base64url")
    expect(bytes.includes("ada@")).toBe(false)
    expect(await codec.open(sealed)).toBe(json)
  })

  it("seals the same value differently each time", async () => {
    const codec = seal({ keys: [k1] })
    expect((await codec.seal(json)).text).not.toBe((await codec.seal(json)).text)
  })

  it("seals with the first key, and opens with all", async () => {
    const before = await seal({ keys: [k1] }).seal(json)
    const rotated = seal({ keys: [k2, k1] })
    expect(await rotated.open(before)).toBe(json)
    const after = await rotated.seal(json)
    expect(after.key).toBe("k2")
    expect(await seal({ keys: [k1, k2] }).open(after)).toBe(json)
    expect([rotated.opens?.("k1"), rotated.opens?.("k3")]).toEqual([true, false])
  })

  it("reports a missing key by its id", async () => {
    const sealed = await seal({ keys: [k1] }).seal(json)
    const error = await errorOf(() => seal({ keys: [k2] }).open(sealed))
    expect(error).toBeInstanceOf(MissingKeyError)
    expect(error).toMatchObject({ key: "k1", message: expect.stringContaining('no key "k1"') })
  })

  it("does not take a wrong key under the same id for a damaged value", async () => {
    const sealed = await seal({ keys: [k1] }).seal(json)
    const error = await errorOf(() => seal({ keys: [key("k1")] }).open(sealed))
    expect(error).toBeInstanceOf(MissingKeyError)
    expect(error).toMatchObject({ message: expect.stringContaining("did not seal it") })
  })

  it("refuses a value that was changed, and one of another key", async () => {
    const codec = seal({ keys: [k1, k2] })
    const sealed = await codec.seal(json)
    const other = await seal({ keys: [k2] }).seal(json)
    const forged = [
      withPart(sealed, 3, flipped),
      withPart(sealed, 3, () => ""),
      withPart(sealed, 1, () => "g"),
      withPart(sealed, 1, () => "x"),
      { ...sealed, text: `${sealed.text}.` },
      { ...sealed, text: "hello" },
      // The ciphertext of one data key under another one.
      { key: "k2", text: other.text.replace(/[\w-]+$/, sealed.text.split(".")[3] ?? "") }
    ]
    for (const each of forged) expect(await errorOf(() => codec.open(each))).toBeInstanceOf(DamagedValueError)
    // Only the master key can say whether a wrapped key is its own.
    expect(await errorOf(() => codec.open(withPart(sealed, 2, flipped)))).toBeInstanceOf(MissingKeyError)
  })

  it("leaves a value of a later version to later code", async () => {
    const codec = seal({ keys: [k1] })
    const sealed = await codec.seal(json)
    const error = await errorOf(() => codec.open(withPart(sealed, 0, () => "2")))
    expect(error).not.toBeInstanceOf(DamagedValueError)
    expect(String(error)).toContain("version 2")
  })

  it("compresses values over a size, if that makes them smaller", async () => {
    const codec = seal({ keys: [k1], compress: { over: 1_000 } })
    const large = JSON.stringify({ text: "night shift ".repeat(1_000) })
    const sealed = await codec.seal(large)
    expect(sealed.text).toMatch(/^1\.[gz]\./)
    expect(sealed.text.length).toBeLessThan(large.length / 10)
    expect(await seal({ keys: [k1] }).open(sealed)).toBe(large)
    const noise = JSON.stringify(randomBytes(3_000).toString("base64"))
    for (const text of [json, noise]) expect(await codec.open(await codec.seal(text))).toBe(text)
    expect((await codec.seal(json)).text).toMatch(/^1\.n\./)
  })

  it("replaces its data key after some values", async () => {
    const codec = seal({ keys: [k1], renew: { values: 2 } })
    const all = await Promise.all([1, 2, 3, 4].map((value) => codec.seal(String(value))))
    const wrapped = all.map(({ text }) => text.split(".")[2])
    expect(wrapped[1]).toBe(wrapped[0])
    expect(wrapped[2]).not.toBe(wrapped[0])
    expect(wrapped[3]).toBe(wrapped[2])
    expect(await Promise.all(all.map((each) => codec.open(each)))).toEqual(["1", "2", "3", "4"])
  })

  it("takes its keys from a service, which it asks once per data key", async () => {
    const calls = { wrap: 0, unwrap: 0 }
    const mask = randomBytes(32)
    const mix = (bytes: Uint8Array) => Buffer.from(bytes.map((byte, index) => byte ^ (mask[index % 32] ?? 0)))
    const service = {
      wrap: async (dataKey: Uint8Array) => {
        calls.wrap += 1
        return { id: "kms-7", wrapped: mix(dataKey) }
      },
      unwrap: async (id: string, wrapped: Uint8Array) => {
        calls.unwrap += 1
        if (id !== "kms-7") throw new Error(`no key ${id}`)
        return mix(wrapped)
      }
    }
    const codec = seal({ keys: service })
    const sealed = await Promise.all(["1", "2", "3"].map((value) => codec.seal(value)))
    expect(sealed[0]?.key).toBe("kms-7")
    expect(calls).toEqual({ wrap: 1, unwrap: 0 })
    const reader = seal({ keys: service })
    expect(await Promise.all(sealed.map((each) => reader.open(each)))).toEqual(["1", "2", "3"])
    expect(calls).toEqual({ wrap: 1, unwrap: 1 })
  })

  it("asks a service again after a failure", async () => {
    let isDown = true
    const service = {
      wrap: (dataKey: Uint8Array) => ({ id: "k", wrapped: dataKey }),
      unwrap: async (_: string, wrapped: Uint8Array) => {
        if (isDown) throw new Error("throttled")
        return wrapped
      }
    }
    const sealed = await seal({ keys: service }).seal(json)
    const codec = seal({ keys: service })
    expect(String(await errorOf(() => codec.open(sealed)))).toContain("throttled")
    isDown = false
    expect(await codec.open(sealed)).toBe(json)
  })

  it("does not take a key of the wrong length from a service for a damaged value", async () => {
    const service = (unwrapped: unknown) => ({
      wrap: (dataKey: Uint8Array) => ({ id: "k", wrapped: dataKey }),
      unwrap: () => unwrapped as Uint8Array
    })
    const sealed = await seal({ keys: service(undefined) }).seal(json)
    for (const wrong of [randomBytes(31), randomBytes(32).toString("base64"), undefined]) {
      const error = await errorOf(() => seal({ keys: service(wrong) }).open(sealed))
      expect(error).not.toBeInstanceOf(DamagedValueError)
      expect(String(error)).toContain('`unwrap` returned no data key of 32 bytes for the key "k"')
    }
  })

  it("refuses options that cannot work", () => {
    const refused = [
      [{ keys: [] }, "keys must have at least one key."],
      [{ keys: [{ id: "a b", key: k1.key }] }, /^keys\[0\]\.id must be 1 to 64 letters, digits, _ or -\.$/],
      [{ keys: [k1, k1] }, 'keys[1].id is used twice: "k1".'],
      [{ keys: [{ id: "k", key: "c2hvcnQ=" }] }, "keys[0].key must be 32 bytes or their base64, got 5 bytes"],
      [{ keys: [k1], renew: { values: 0 } }, "renew.values must be greater than 0, got 0."],
      [{ keys: [k1], compress: { over: -1 } }, "compress.over must be a number of bytes, got -1."]
    ] as const
    for (const [options, message] of refused) expect(() => seal(options)).toThrow(message)
  })

  it("reads keys from text", async () => {
    const text = `k2:${k2.key.toString("base64")},\nk1:${k1.key.toString("base64url")}`
    const sealed = await seal({ keys: [k1] }).seal(json)
    expect(await seal({ keys: parseKeys(text) }).open(sealed)).toBe(json)
    expect(parseKeys(text).map(({ id }) => id)).toEqual(["k2", "k1"])
    // Written in the wrong order, the key is where the id should be.
    const swapped = `${k1.key.toString("base64")}:k1`
    expect(() => seal({ keys: parseKeys(swapped) })).toThrow(
      /^keys\[0\]\.id must be 1 to 64 letters, digits, _ or -\.$/
    )
  })
})
