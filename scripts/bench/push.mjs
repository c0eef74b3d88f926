// The endpoint of pushed jobs, in its own process: accepts every request when it has read its body.
import { createServer } from "node:http"

/** Serves until killed. */
export const accept = async (_, __, { send }) => {
  const server = createServer((request, response) => {
    request.resume().on("end", () => response.writeHead(200).end())
  })
  await new Promise((done) => server.listen(0, "127.0.0.1", done))
  await send({ ready: { pushTo: `http://127.0.0.1:${server.address().port}/jobs` } })
  return new Promise(() => {})
}
