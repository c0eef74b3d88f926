import pg from "pg"
import { peer } from "../peers.mjs"
import { openBullmq } from "./bullmq.mjs"

const prepare = async (url) => {
  const { runMigrations } = await peer("bullmq")
  const client = new pg.Client(url)
  await client.connect()
  await runMigrations(client)
  await client.end()
}

const open = async (url) => {
  const { createPostgresBackend } = await peer("bullmq")
  return openBullmq({ backend: createPostgresBackend, connection: { connectionString: url, max: 64 } })
}

export const system = {
  title: "BullMQ on PostgreSQL",
  peer: true,
  prepare,
  open
}
