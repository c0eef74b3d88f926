import { Effect } from "effect"
import type { Deployment } from "./Deployment.js"
import { pace } from "./FaultCase.js"
import { type Answer, token } from "./Pod.js"

/** Sends requests to the pods in turn, as a load balancer does, and counts what they refuse. */
export interface Caller {
  /** Sends one request. A request without an answer has the status 0. */
  readonly send: (path: string, init: RequestInit) => Effect.Effect<Answer>
  /** Repeats a request that may be repeated until it succeeds or is refused for good; returns the last answer. */
  readonly insist: (what: string, path: string, body: unknown) => Effect.Effect<Answer>
  /** The same with other headers and another body. */
  readonly insistRaw: (what: string, path: string, init: RequestInit) => Effect.Effect<Answer>
  readonly refused: (what: string, answer: Answer) => void
  /** Answers other than success, by what was asked for, status and text. */
  readonly refusals: Readonly<Record<string, number>>
}

export const isSuccess = ({ status }: Answer): boolean => status >= 200 && status < 300

const maxTries = 400

export const make = (deployment: Deployment): Caller => {
  const refusals: Record<string, number> = {}
  let turn = 0
  const refused = (what: string, { body, status }: Answer) => {
    const reason = `${what}: ${status} ${body.slice(0, 100)}`
    refusals[reason] = (refusals[reason] ?? 0) + 1
  }
  const send = (path: string, init: RequestInit) =>
    Effect.promise(async (): Promise<Answer> => {
      const alive = deployment.pods.filter((pod) => pod.isAlive() && pod.takesLoad)
      turn += 1
      // No process listens on the discard port.
      const base = alive[turn % alive.length]?.base ?? "http://127.0.0.1:9"
      try {
        const signal = AbortSignal.timeout(4_000 * pace)
        const response = await fetch(`${base}${path}`, { method: "POST", ...init, signal })
        return { status: response.status, body: await response.text() }
      } catch (error) {
        return { status: 0, body: String(error) }
      }
    })
  const insistRaw = (what: string, path: string, init: RequestInit) =>
    Effect.gen(function* () {
      for (let tries = 0; tries < maxTries; tries += 1) {
        const answer = yield* send(path, init)
        if (isSuccess(answer)) return answer
        refused(what, answer)
        if (answer.status >= 400 && answer.status < 500 && answer.status !== 429) return answer
        yield* Effect.sleep("200 millis")
      }
      return yield* Effect.die(new Error(`${what}: no success in ${maxTries} attempts`))
    })
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" }
  return {
    send,
    insist: (what, path, body) => insistRaw(what, path, { headers, body: JSON.stringify(body) }),
    insistRaw,
    refused,
    refusals
  }
}
