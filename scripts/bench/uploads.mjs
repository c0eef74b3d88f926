// Measures uploads: a service that receives and returns files, and the timed client.
import { randomBytes } from "node:crypto"
import { Agent, request } from "node:http"

const boundary = "nightshift-bench"
const megabyte = 1024 * 1024

/** Accepts uploads until killed. */
export const inbox = async (instance, _, { send }) => {
  await send({ ready: await instance.inbox() })
  return new Promise(() => {})
}

const send = (options, body) =>
  new Promise((done, fail) => {
    const sent = request({ host: "127.0.0.1", ...options }, (response) => {
      const chunks = []
      let bytes = 0
      response.on("data", (chunk) => {
        bytes += chunk.length
        if (options.method === "POST") chunks.push(chunk)
      })
      response.on("error", fail)
      response.on("end", () => {
        if (response.statusCode < 300) return done({ bytes, text: Buffer.concat(chunks).toString() })
        fail(new Error(`${options.method} ${options.path} returned ${response.statusCode}`))
      })
    })
    sent.on("error", fail)
    sent.end(body)
  })

/** Sends files one at a time per connection and fetches them again. Random content, as of images and archives. */
export const transfer = async (_, { connections, contentPath, files, headers, path, port, size }) => {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const head = `--${boundary}\r\ncontent-disposition: form-data; name="files"; filename="a.bin"\r\ncontent-type: application/octet-stream\r\n\r\n`
  const body = Buffer.concat([Buffer.from(head), randomBytes(size), Buffer.from(`\r\n--${boundary}--\r\n`)])
  const form = {
    ...headers,
    "content-type": `multipart/form-data; boundary=${boundary}`,
    "content-length": body.length
  }
  const ids = []
  const put = async () => {
    const { text } = await send({ agent, port, path, method: "POST", headers: form }, body)
    ids.push(JSON.parse(text).files[0].id)
  }
  const get = async (id) => {
    const { bytes } = await send({ agent, port, path: contentPath.replace("{id}", id), method: "GET", headers })
    if (bytes < size) throw new Error(`fetched ${bytes} bytes of ${size}`)
  }
  const each = async (count, step) => {
    let next = 0
    const lane = async () => {
      while (next < count) await step(next++)
    }
    const begun = performance.now()
    await Promise.all(Array.from({ length: connections }, lane))
    return (count * size) / megabyte / ((performance.now() - begun) / 1000)
  }
  await each(connections, put)
  const value = await each(files, put)
  const out = await each(files, (index) => get(ids[index]))
  return { value, out }
}
