import { peer } from "../peers.mjs"
import { findRedis } from "../redis.mjs"
import { openBullmq } from "./bullmq.mjs"

const prepare = async (url) => {
  const { Redis } = await peer("ioredis")
  const client = new Redis(url)
  await client.flushall()
  await client.quit()
}

const open = (url) => {
  const { hostname, port } = new URL(url)
  return openBullmq({ connection: { host: hostname, port: Number(port), maxRetriesPerRequest: null } })
}

export const system = {
  title: "BullMQ on Redis",
  store: "redis",
  peer: true,
  unavailable: async () => (findRedis() === undefined ? "there is no redis-server on this machine" : undefined),
  prepare,
  open
}
