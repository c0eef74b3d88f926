// A minimal webhook sender, so that its cost does not distort the receiver's measurement.
import { connect } from "node:net"

/** A Telegram update with a text message. */
export const updateOf = (n) =>
  JSON.stringify({
    update_id: n,
    message: {
      message_id: n,
      date: 1_700_000_000,
      chat: { id: 1 + (n % 200), type: "private", first_name: "Ada" },
      from: { id: 1 + (n % 200), is_bot: false, first_name: "Ada", language_code: "en" },
      text: "how much is the fish, and when will it arrive?"
    }
  })

const headEnd = Buffer.from("\r\n\r\n")

/** Opens a keep-alive connection that sends one request at a time. */
export const openSender = async ({ headers, path, port }) => {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true })
  await new Promise((done, fail) => socket.once("connect", done).once("error", fail))
  const extra = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const head = `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n${extra.join("")}`
  let waiting
  socket.on("data", (data) => {
    // All responses are short and have no body, so each arrives in one chunk.
    if (data.indexOf(headEnd) === -1 || !data.subarray(0, 12).equals(Buffer.from("HTTP/1.1 200"))) {
      waiting?.fail(new Error(`answered ${data.toString("utf8", 0, 100)}`))
    } else waiting?.done()
  })
  for (const event of ["error", "close"])
    socket.on(event, (error) => waiting?.fail(error || new Error("connection closed")))
  return {
    deliver: (body) =>
      new Promise((done, fail) => {
        waiting = { done, fail }
        socket.write(`${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
      }),
    close: () => {
      waiting = undefined
      socket.destroy()
    }
  }
}
