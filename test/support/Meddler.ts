import * as Http from "node:http"
import type { AddressInfo } from "node:net"
import { Effect, type Scope } from "effect"

/** A request passing through the proxy. */
export interface Passing {
  readonly method: string
  readonly path: string
  readonly headers: Http.IncomingHttpHeaders
}

/** What to do with a request instead of forwarding it. */
export type Meddling = {
  /** Called instead of forwarding; the service gets nothing. */
  readonly before?: () => void
  /** Called after this many bytes of the answer's body. */
  readonly afterBytes?: readonly [bytes: number, act: () => void]
  /** Called after the service has answered; the answer is dropped. */
  readonly afterwards?: () => void
}

/** A proxy in front of a service that interferes with requests as the test says, and records all. */
export interface Meddler {
  readonly url: string
  readonly seen: ReadonlyArray<Passing>
  readonly meddle: (choose: (passing: Passing) => Meddling | undefined) => void
}

const forward = (target: string, request: Http.IncomingMessage, answer: Http.ServerResponse, meddling: Meddling) => {
  const onward = Http.request(`${target}${request.url}`, { method: request.method ?? "GET", headers: request.headers })
  onward.on("error", () => answer.destroy())
  onward.on("response", (response) => {
    const { afterBytes, afterwards } = meddling
    if (afterwards !== undefined) {
      response.resume()
      response.on("end", () => {
        afterwards()
        answer.destroy()
      })
      return
    }
    answer.writeHead(response.statusCode ?? 500, response.headers)
    if (afterBytes === undefined) return void response.pipe(answer)
    let left = afterBytes[0]
    response.on("data", (chunk: Buffer) => {
      const piece = chunk.subarray(0, left)
      left -= piece.length
      answer.write(piece, () => {
        if (left > 0 || response.destroyed) return
        response.destroy()
        afterBytes[1]()
      })
    })
  })
  request.pipe(onward)
}

export const make = (target: string): Effect.Effect<Meddler, never, Scope.Scope> =>
  Effect.gen(function* () {
    const seen: Array<Passing> = []
    let choose: (passing: Passing) => Meddling | undefined = () => undefined
    const server = yield* Effect.acquireRelease(
      Effect.promise(
        () =>
          new Promise<Http.Server>((resolve) => {
            const opened = Http.createServer((request, answer) => {
              const passing = { method: request.method ?? "", path: request.url ?? "", headers: request.headers }
              seen.push(passing)
              const meddling = choose(passing) ?? {}
              if (meddling.before === undefined) return forward(target, request, answer, meddling)
              meddling.before()
              answer.destroy()
            }).listen(0, "127.0.0.1", () => resolve(opened))
          })
      ),
      (opened) =>
        Effect.sync(() => {
          opened.close()
          opened.closeAllConnections()
        })
    )
    return {
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      seen,
      meddle: (next) => {
        choose = next
      }
    }
  })
