// A Redis server for BullMQ, if installed. In memory only, its fastest mode, without persistence.
import { spawn } from "node:child_process"
import { accessSync, constants, mkdtempSync, rmSync } from "node:fs"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { freePort } from "./postgres.mjs"

/** Returns the path of redis-server, if installed. */
export const findRedis = () =>
  (process.env.PATH ?? "")
    .split(delimiter)
    .map((folder) => join(folder, "redis-server"))
    .find((file) => {
      try {
        accessSync(file, constants.X_OK)
        return true
      } catch {
        return false
      }
    })

const answers = (port) =>
  new Promise((done) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy()
      done(true)
    })
    socket.on("error", () => done(false))
  })

export const startRedis = async (binary) => {
  const folder = mkdtempSync(join(tmpdir(), "nightshift-bench-redis-"))
  const port = await freePort()
  const flags = ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--appendonly", "no"]
  const server = spawn(binary, flags, { stdio: "ignore" })
  server.on("error", () => {})
  const stop = async () => {
    server.kill("SIGTERM")
    rmSync(folder, { recursive: true, force: true })
  }
  process.once("exit", () => server.kill("SIGKILL"))
  for (let waited = 0; waited < 10_000; waited += 20) {
    if (await answers(port)) return { url: `redis://127.0.0.1:${port}/0`, stop }
    await sleep(20)
  }
  await stop()
  throw new Error("redis-server did not start")
}
