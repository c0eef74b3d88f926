import { type AddressInfo, createServer } from "node:net"
import { describe, expect, it, vi } from "vitest"
import { z } from "zod"
import { connect, job, worker } from "../../src/client/index.js"
import { useDatabase } from "./ClientDatabase.js"

const database = useDatabase()

/** Closes every connection at once, and counts them. */
const openRefusing = async (port: number) => {
  let attempts = 0
  const server = createServer((socket) => {
    attempts += 1
    socket.destroy()
  })
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve))
  return {
    port: (server.address() as AddressInfo).port,
    attempts: () => attempts,
    close: () => new Promise<void>((resolve) => server.close(() => resolve()))
  }
}

describe("a program whose database does not answer", () => {
  it("logs one line for the attempts of several seconds, and then the error", async () => {
    const warnings: Array<string> = []
    const log = { debug: () => {}, info: () => {}, warn: (text: string) => void warnings.push(text), error: () => {} }
    const refusing = await openRefusing(0)
    vi.stubEnv("DATABASE_BOOT_TIMEOUT", "1s")
    await expect(connect(`postgres://127.0.0.1:${refusing.port}/none`, { log })).rejects.toThrow(/within 1s/)
    vi.unstubAllEnvs()
    expect(refusing.attempts()).toBeGreaterThan(2)
    expect(warnings).toEqual([expect.stringMatching(/not reachable yet .*, retrying for another 1s$/)])
    await refusing.close()
  })
})

describe("a worker whose database is unavailable", () => {
  it("logs one line for the outage and one when the database is back", async () => {
    const lines: Array<string> = []
    const log = {
      debug: () => {},
      info: (text: string) => void lines.push(`info ${text}`),
      warn: (text: string) => void lines.push(`warn ${text}`),
      error: (text: string) => void lines.push(`error ${text}`)
    }
    const proxy = await database.proxy()
    const port = Number(new URL(proxy.url).port)
    await using shift = await connect(proxy.url, { log })
    const outage = job("outage", { payload: z.object({}), attempts: 1 })
    let release = () => {}
    const released = new Promise<void>((done) => {
      release = done
    })
    let started = () => {}
    const isRunning = new Promise<void>((done) => {
      started = done
    })
    await worker(shift, {
      handlers: [
        outage.handle(async (_, { progress }) => {
          started()
          await released
          await progress("half")
          return "done"
        })
      ]
    })
    const { id } = await shift.enqueue(outage, {})
    await isRunning
    lines.length = 0
    await proxy.close()
    const refusing = await openRefusing(port)
    await vi.waitFor(() => expect(refusing.attempts()).toBeGreaterThan(12), { timeout: 20_000 })
    release()
    await vi.waitFor(() => expect(lines.join()).toContain("are not written yet"), { timeout: 20_000 })
    await refusing.close()
    const again = await database.proxy(port)
    await vi.waitFor(() => expect(lines.join()).toContain("available again"), { timeout: 20_000 })
    // The leadership may end or begin in between.
    expect(lines.filter((line) => !/leading|results/.test(line))).toEqual([
      expect.stringMatching(/^error database at 127\.0\.0\.1:\d+\/\S+ unavailable, retrying: \S/),
      expect.stringMatching(/^info database at 127\.0\.0\.1:\d+\/\S+ available again after \d+s$/)
    ])
    // A progress that could not be stored costs no attempt.
    expect(await shift.result(id, { timeout: "20s" })).toBe("done")
    await shift.close()
    await again.close()
  })
})
