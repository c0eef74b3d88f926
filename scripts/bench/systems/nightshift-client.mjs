// Nightshift through nightshift/client, with a payload validated by zod: the cost of an enqueue in programs without Effect.
import { z } from "zod"
import { system as nightshift } from "./nightshift.mjs"

const face = new URL("../../../dist/client.js", import.meta.url)

const open = async (url) => {
  const { connect, job } = await import(face)
  const noop = job("noop", { payload: z.object({ n: z.number(), at: z.string(), text: z.string() }), queue: "default" })
  const shift = await connect(url, { log: false })
  return {
    enqueueBulk: (payloads) => shift.enqueueMany(noop, payloads),
    enqueue: (payload) => shift.enqueue(noop, payload),
    close: () => shift.close()
  }
}

export const system = { ...nightshift, title: "Nightshift, promises", open }
