import { describe, expect, it } from "vitest"
import { connect, job } from "../../src/client/index.js"
import { type Codec, DamagedValueError } from "../../src/codec/index.js"
import { testShift } from "../../src/testing/index.js"
import { testCodec } from "../support/TestCodec.js"
import { secret, useSealedDatabase } from "./SealedDatabase.js"

const { database, open, stored } = useSealedDatabase()

describe("a codec of the user", () => {
  it("may be asynchronous, and refuse values", async () => {
    const asked: Array<string> = []
    const codec: Codec = {
      seal: async (json) => ({ key: "vault", text: Buffer.from(json).toString("base64url") }),
      open: async ({ key, text }) => {
        asked.push(key)
        if (text === "") throw new DamagedValueError("it is empty")
        return Buffer.from(text, "base64url").toString()
      }
    }
    const kind = job("vaulted", { payload: secret })
    await using shift = await testShift({ handlers: [kind.handle(({ text }) => ({ text }))], codec })
    const { id } = await shift.enqueue(kind, { text: "async" })
    expect(await shift.result(id)).toEqual({ text: "async" })
    expect(asked.length).toBeGreaterThan(1)
  })

  it("that cannot seal makes the enqueue fail, and nothing is stored", async () => {
    const codec: Codec = {
      seal: () => {
        throw new Error("the vault is closed")
      },
      open: () => "null"
    }
    const shift = await open(codec)
    const kind = job("unsealed", { payload: secret, queue: "held" })
    await expect(shift.enqueue(kind, { text: "a" })).rejects.toThrow("the vault is closed")
    expect(await database.count("unsealed")).toBe(0)
  })

  it("is checked when the program connects", async () => {
    await expect(connect(database.url(), { codec: {} as Codec })).rejects.toThrow(
      "codec must be an object with seal and open"
    )
  })

  it("opens only, while keys are introduced", async () => {
    const shift = await open({ ...testCodec("k1"), openOnly: true })
    const kind = job("introduced", { payload: secret, queue: "held" })
    const { id } = await shift.enqueue(kind, { text: "plain" })
    expect(await stored(id)).toEqual({ text: "plain" })
    const sealed = await (await open(testCodec("k1"))).enqueue(kind, { text: "sealed" })
    expect(await shift.job(sealed.id)).toMatchObject({ payload: { text: "sealed" } })
  })
})
