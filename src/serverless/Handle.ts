import { type Handler, type Recipe, recipe } from "../client/Recipe.js"
import * as Lambda from "./Lambda.js"
import * as RunJob from "./RunJob.js"
import * as Signature from "./Signature.js"

type Secret = string | ReadonlyArray<string> | undefined

/** The jobs that a function runs, and the secret of the service that sends them. */
export interface HandleOptions {
  /** What `job.handle(…)` returned. */
  readonly jobs: ReadonlyArray<Handler>
  /**
   * The secret that the service signs with: `whsec_…`. Several while it is rotated. A function gets the environment of the
   * request, which Cloudflare passes as an argument.
   */
  readonly secret: Secret | ((env: never) => Secret)
  /** How far the time of a request may differ from this machine's clock, in seconds. [300] */
  readonly toleranceSeconds?: number | undefined
}

/** A function for each kind of runtime. */
export interface Handled {
  /** For runtimes with fetch: Vercel, Cloudflare, Deno, Bun, Next.js. */
  readonly fetch: (request: Request, env?: unknown) => Promise<Response>
  /** For AWS Lambda, behind a function URL or an API Gateway. */
  readonly lambda: (event: Lambda.LambdaEvent, context?: Lambda.LambdaContext) => Promise<Lambda.LambdaResponse>
}

/** Longer than any request of a service: payload and meta have at most 1 MiB each. */
const maxBytes = 4 * 1024 * 1024

const recipes = (jobs: HandleOptions["jobs"]): ReadonlyMap<string, Recipe> => {
  const byName = new Map<string, Recipe>()
  jobs.forEach((handler, index) => {
    const made = Object(handler)[recipe] as Recipe | undefined
    if (made === undefined) throw new TypeError(`jobs[${index}] is not a handler: pass what job.handle(…) returned.`)
    if (made.call !== "handle")
      throw new TypeError(
        `jobs[${index}], "${made.name}", was made by ${made.call}, which needs a connection to the database: use handle.`
      )
    if (byName.has(made.name)) throw new TypeError(`jobs has two handlers for "${made.name}". Pass one of them.`)
    byName.set(made.name, made)
  })
  return byName
}

/** Reads the body. Undefined if it is too long. */
const readBody = async (request: Request): Promise<Uint8Array<ArrayBuffer> | undefined> => {
  if (Number(request.headers.get("content-length")) > maxBytes) return undefined
  const body = new Uint8Array(await request.arrayBuffer())
  return body.length > maxBytes ? undefined : body
}

const parse = (body: Uint8Array): unknown => {
  try {
    return JSON.parse(new TextDecoder().decode(body))
  } catch {
    return undefined
  }
}

const refuse = (status: number, reason: string) =>
  new Response(reason, { status, headers: { "content-type": "text/plain; charset=utf-8" } })

const badSecret =
  "The secret of this function is missing or malformed. Set it to the secret of the service: whsec_ and 24 to 64 bytes in base64."

/**
 * Makes a function that runs the jobs that a service sends to its URL. It verifies the signature, decodes the payload by the
 * kind's schema, runs the handler and responds with its result, or with how else the attempt ended.
 *
 * @example
 * ```ts
 * import { handle, job } from "nightshift/serverless"
 * import { z } from "zod"
 *
 * const resize = job("resize", { payload: z.object({ file: z.string() }) })
 * export const { lambda } = handle({
 *   secret: (env: { readonly PUSH_SECRET: string }) => env.PUSH_SECRET,
 *   jobs: [resize.handle(async ({ file }, { log }) => log.info("resizing", { file }))]
 * })
 * ```
 */
export const handle = ({ jobs, secret, toleranceSeconds }: HandleOptions): Handled => {
  const byName = recipes(jobs)
  const keys = new Map<string, Promise<Signature.Key | undefined>>()

  /** Secrets are read for each request, because builds of some platforms load the module without its environment. */
  const keysOf = async (env: unknown): Promise<ReadonlyArray<Signature.Key>> => {
    const given = typeof secret === "function" ? secret(env as never) : secret
    const all = (typeof given === "string" ? [given] : (given ?? [])).map((each) => {
      const known = keys.get(each) ?? Signature.keyOf(each)
      keys.set(each, known)
      return known
    })
    const made = await Promise.all(all)
    return made.every((key) => key !== undefined) ? made : []
  }

  const run = async (request: Request, env: unknown, ends: AbortSignal): Promise<Response> => {
    if (request.method !== "POST") return refuse(405, "Send jobs as POST requests.")
    const signed = Signature.read(request.headers, Date.now(), toleranceSeconds)
    if (typeof signed === "string") return refuse(401, signed)
    const own = await keysOf(env)
    if (own.length === 0) return refuse(500, badSecret)
    const body = await readBody(request)
    if (body === undefined) return refuse(413, `The request has more than ${maxBytes} bytes.`)
    if (!(await Signature.isGenuine(own, signed, body))) return refuse(401, "The signature does not match the body.")
    const pushed = parse(body)
    if (!RunJob.isPushed(pushed)) return refuse(400, "The request is not a job of Nightshift.")
    const known = byName.get(pushed.type)
    // The service may have been deployed before the function, so the job is tried again.
    if (known === undefined) return refuse(404, `The function has no handler for the kind "${pushed.type}".`)
    return RunJob.run(known, pushed, ends)
  }

  return {
    // Some runtimes have requests without a signal.
    fetch: (request, env) =>
      run(request, env, (request.signal as AbortSignal | null | undefined) ?? new AbortController().signal),
    lambda: async (event, context) => {
      const env = (globalThis as { process?: { env?: unknown } }).process?.env
      return Lambda.responseOf(await run(Lambda.requestOf(event), env, Lambda.signalOf(context)))
    }
  }
}
