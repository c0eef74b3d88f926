import * as Http from "node:http"
import type { AddressInfo } from "node:net"
import type { Handled } from "../../src/serverless/index.js"

const readAll = async (request: Http.IncomingMessage): Promise<Buffer> => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

type Forward = (request: Http.IncomingMessage, body: Buffer, gone: AbortSignal) => Promise<Response>

/** Calls `fetch`, as runtimes with Request and Response do. */
export const byFetch =
  ({ fetch }: Pick<Handled, "fetch">): Forward =>
  (request, body, signal) => {
    const headers = Object.entries(request.headers).flatMap(
      ([name, value]): Array<[string, string]> => (typeof value === "string" ? [[name, value]] : [])
    )
    const method = request.method ?? "GET"
    const content = method === "POST" ? { body: new Uint8Array(body) } : {}
    return fetch(new Request(`http://${request.headers.host}${request.url}`, { method, headers, signal, ...content }))
  }

/** Calls `lambda` with the event of a function URL, as AWS builds it: headers in lower case, and here the body in base64. */
export const byLambda =
  ({ lambda }: Pick<Handled, "lambda">): Forward =>
  async (request, body) => {
    const {
      body: text,
      headers,
      statusCode
    } = await lambda(
      {
        headers: request.headers as Record<string, string>,
        body: body.toString("base64"),
        isBase64Encoded: true,
        requestContext: { http: { method: request.method } }
      },
      { getRemainingTimeInMillis: () => 10_000 }
    )
    return new Response(text === "" ? null : text, { status: statusCode, headers })
  }

/** A real HTTP server in front of a function. */
export const serve = async (forward: Forward) => {
  const server = Http.createServer(async (request, response) => {
    const gone = new AbortController()
    response.on("close", () => response.writableEnded || gone.abort())
    const answer = await forward(request, await readAll(request), gone.signal)
    response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(Buffer.from(await answer.arrayBuffer()))
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/jobs`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    }
  }
}
