import { expect, it } from "vitest"
import { z } from "zod"
import { connect, job, worker } from "../../src/client/index.js"
import { useDatabase } from "./ClientDatabase.js"

const database = useDatabase()

/** A logger that notes messages. */
const noting = (messages: Array<string>) => {
  const note = (message: string) => void messages.push(message.replace(/process \S+/, "process"))
  return { debug: note, info: note, warn: note, error: note }
}

it("of a worker go to its own log from its start to its stop, and those of the shift to the shift's", async () => {
  const ofShift: Array<string> = []
  const ofWorker: Array<string> = []
  const greet = job("greet", { payload: z.object({}), queue: "hello" })
  const other = job("other", { payload: z.object({}), queue: "bye" })
  await using shift = await connect(database.url(), { log: noting(ofShift) })
  const greeting = greet.handle((_, { log }) => log.info("hello"))
  const running = await worker(shift, { handlers: [greeting], log: noting(ofWorker) })
  const second = await worker(shift, { handlers: [other.handle((_, { log }) => log.info("bye"))] })
  const quiet = await worker(shift, { handlers: [other.handle(() => {})], queues: ["idle"], log: false })
  const enqueued = [await shift.enqueue(greet, {}), await shift.enqueue(other, {})]
  for (const { id } of enqueued) await shift.result(id)
  await Promise.all([running.stop(), second.stop(), quiet.stop()])
  for (const [messages, word, queue] of [
    [ofWorker, "hello", "hello"],
    [ofShift, "bye", "bye"]
  ] as const) {
    expect(messages.filter((message) => /^(process|hello|bye)/.test(message))).toEqual([
      `process started: serving ${queue}`,
      word,
      "process stopped"
    ])
  }
})
