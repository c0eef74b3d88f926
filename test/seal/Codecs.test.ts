import { describe, expect, it } from "vitest"
import { z } from "zod"
import { connect, job } from "../../src/client/index.js"
import { type Codec, DamagedValueError, seal } from "../../src/codec/index.js"
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

  it("whose key service is down does not end the process when a job of several is refused", async () => {
    const wrap = () => Promise.reject(new Error("KMS down"))
    const codec = seal({ keys: { wrap, unwrap: async (_, wrapped) => wrapped } })
    const kind = job("refused", { payload: z.unknown() })
    await using shift = await testShift({ handlers: [], queues: ["default"], codec })
    const unhandled: Array<unknown> = []
    const remember = (error: unknown) => void unhandled.push(error)
    process.on("unhandledRejection", remember)
    try {
      const refused = shift.enqueueMany(kind, [{ ok: 1 }, { bad: "\u0000" }])
      await expect(refused).rejects.toMatchObject({ name: "InvalidJobError", index: 1 })
      await expect(shift.enqueue(kind, { ok: 1 })).rejects.toThrow("KMS down")
      // Node reports rejections without a handler after the promises that have settled.
      await new Promise((resolve) => setImmediate(resolve))
    } finally {
      process.off("unhandledRejection", remember)
    }
    expect(unhandled).toEqual([])
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
