// Baseline for uploads: node:http that writes each request body to a file, syncs it, and streams it back.
import { randomUUID } from "node:crypto"
import { createReadStream, createWriteStream, mkdtempSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pipeline } from "node:stream/promises"

const open = async () => {
  const folder = mkdtempSync(join(tmpdir(), "nightshift-bench-"))
  const store = async (request, response) => {
    const id = randomUUID()
    // `flush` syncs the file before it is closed. The multipart framing is stored too: nothing is parsed.
    await pipeline(request, createWriteStream(join(folder, id), { flush: true }))
    response.writeHead(201, { "content-type": "application/json" }).end(JSON.stringify({ files: [{ id }] }))
  }
  const fetch = (id, response) => pipeline(createReadStream(join(folder, id)), response)
  return {
    inbox: () =>
      new Promise((done) => {
        const server = createServer((request, response) => {
          const handled = request.method === "POST" ? store(request, response) : fetch(request.url.slice(1), response)
          handled.catch(() => response.destroy())
        })
        server.listen(0, "127.0.0.1", () =>
          done({ port: server.address().port, path: "/", contentPath: "/{id}", headers: {}, folder })
        )
      }),
    close: async () => {}
  }
}

export const system = {
  title: "bare disk",
  open
}
