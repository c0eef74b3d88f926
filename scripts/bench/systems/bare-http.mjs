// Baseline for the HTTP server: node:http with one insert per request.
import { createServer } from "node:http"
import pg from "pg"
import { execute } from "../../matrix/servers.mjs"

const insert = { name: "insert", text: "insert into webhook (payload) values ($1)" }

const take = (pool, request, response) => {
  const chunks = []
  request.on("data", (chunk) => chunks.push(chunk))
  request.on("end", () => {
    const update = JSON.parse(Buffer.concat(chunks).toString())
    pool.query({ ...insert, values: [JSON.stringify(update)] }).then(
      () => response.writeHead(200, { "content-length": 0 }).end(),
      () => response.writeHead(500).end()
    )
  })
}

const open = async (url) => {
  const pool = new pg.Pool({ connectionString: url, max: 10 })
  return {
    receive: () =>
      new Promise((done) => {
        const server = createServer((request, response) => take(pool, request, response))
        server.listen(0, "127.0.0.1", () => done({ port: server.address().port, path: "/", headers: {} }))
      }),
    received: async () => Number((await pool.query("select count(*) from webhook")).rows[0].count),
    close: () => pool.end()
  }
}

export const system = {
  title: "bare http",
  prepare: (url) => execute(url, ["create table webhook (id bigserial primary key, payload jsonb not null)"]),
  open
}
