import { Readable } from "node:stream"
import * as HttpBody from "@effect/platform/HttpBody"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"

/**
 * The stream as a web stream. `Readable.toWeb` throws in a callback of the event loop if the reader leaves while data waits, which would
 * end the app's process.
 */
const webStream = (stream: Readable) => {
  const chunks = stream[Symbol.asyncIterator]()
  return new ReadableStream({
    pull: async (controller) => {
      const { done, value } = await chunks.next()
      if (done) controller.close()
      else controller.enqueue(value)
    },
    cancel: () => void stream.destroy()
  })
}

/** Turns the body of a stream of events, which is a stream of node, into one of the web. */
export const withWebBody = (response: HttpServerResponse.HttpServerResponse): HttpServerResponse.HttpServerResponse =>
  response.body._tag === "Raw" && response.body.body instanceof Readable
    ? HttpServerResponse.setBody(response, HttpBody.raw(webStream(response.body.body)))
    : response
