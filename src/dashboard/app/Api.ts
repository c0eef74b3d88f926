import { shownCell } from "./Route"

// Client of the HTTP API. URLs are relative (`/ui/` to `/api/`), so that the pages work behind any path prefix.

const home = new URL("../api/v1/", new URL(".", location.href.split("#")[0]))
const base = shownCell === undefined ? home : new URL(`cells/${encodeURIComponent(shownCell)}/`, home)

/** What the service itself answers, whichever cell is shown. */
const isOfService = /^(session|fleet|cells)\b/

/** An error response of the API, or a failed request (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly tag: string,
    message: string,
    readonly field: string | undefined
  ) {
    super(message)
  }
}

export const address = (path: string): string => new URL(path, isOfService.test(path) ? home : base).href

const refusalOf = async (response: Response): Promise<ApiError> => {
  const body: unknown = await response.json().catch(() => undefined)
  const error =
    typeof body === "object" && body !== null && "error" in body
      ? (body.error as { tag: string; message: string; field?: string })
      : { tag: "Unreadable", message: `The service returned ${response.status}.` }
  return new ApiError(response.status, error.tag, error.message, "field" in error ? error.field : undefined)
}

/** Called on every 401 response, except those of requests that were sent before the last login. */
let onUnauthorized: () => void = () => {}
export const whenUnauthorized = (listener: () => void): void => {
  onUnauthorized = listener
}

let logins = 0
export const noteLogin = (): void => {
  logins += 1
}

/** How far a request came: to a response, to a service whose database is down, or not to the service. */
export type Reach = "service" | "no database" | "nothing"

/** Called after every request. */
let onReach: (reach: Reach) => void = () => {}
export const whenReached = (listener: (reach: Reach) => void): void => {
  onReach = listener
}

const unreachable = (message = "The service is not reachable."): ApiError => {
  onReach("nothing")
  return new ApiError(0, "Unreachable", message, undefined)
}

const jsonOf = async <A>(response: Response): Promise<A> => {
  try {
    return (await response.json()) as A
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw unreachable(
      "Something else responded in place of the service, such as the login page of a proxy. Reload the page."
    )
  }
}

/** Whether the server closed a connection without reading the request, for example because it was frozen meanwhile. */
const isUnread = ({ status, tag }: ApiError): boolean => status === 408 && tag === "Unreadable"

/** Whether the service responds, but its database does not. */
export const isDatabaseDown = (error: ApiError): boolean => error.tag === "DatabaseUnavailable"

/** Offsets of the service's clock in milliseconds, from the last heartbeats. A late heartbeat makes one too small. */
let clockOffsets: ReadonlyArray<number> = []

/** Notes the time of the service, in epoch milliseconds. */
export const noteServiceTime = (at: number): void => {
  clockOffsets = [...clockOffsets.slice(-4), at - Date.now()]
}

/** The time of the service, in epoch milliseconds. */
export const serviceTime = (): number => Date.now() + (clockOffsets.length === 0 ? 0 : Math.max(...clockOffsets))

/** Milliseconds in which an action has to be carried out. The service refuses it later, even if it was frozen. */
const deadline = 10_000

const deadlineHeader = (): Readonly<Record<string, string>> =>
  clockOffsets.length === 0 ? {} : { "x-deadline": new Date(serviceTime() + deadline).toISOString() }

/** Fields with JSON typed by the user. Sent as text, because parsing it here would silently round long numbers. */
export type Typed = Readonly<Record<string, string>>

const bodyOf = (body: unknown, typed: Typed): string => {
  const fields = Object.entries(typed).map(([name, text]) => `${JSON.stringify(name)}:${text}`)
  if (fields.length === 0) return JSON.stringify(body)
  const rest = JSON.stringify(body).slice(1, -1)
  return `{${[...(rest === "" ? [] : [rest]), ...fields].join(",")}}`
}

const send = async <A>(
  method: string,
  path: string,
  body?: unknown,
  { signal, typed = {} }: { readonly signal?: AbortSignal | undefined; readonly typed?: Typed } = {}
): Promise<A> => {
  const isAct = method !== "GET"
  // Not longer than the deadline: the person who acts has to know then.
  const limit = isAct ? AbortSignal.timeout(deadline) : undefined
  const stop = signal ?? limit
  const login = logins
  let response: Response
  try {
    response = await fetch(address(path), {
      method,
      credentials: "same-origin",
      headers: {
        ...(isAct ? deadlineHeader() : {}),
        ...(body === undefined ? {} : { "content-type": "application/json" })
      },
      ...(stop === undefined ? {} : { signal: stop }),
      ...(body === undefined ? {} : { body: bodyOf(body, typed) })
    })
  } catch (error) {
    if (signal?.aborted === true) throw error
    if (limit?.aborted === true)
      throw new ApiError(
        0,
        "NoAnswer",
        `No answer within ${deadline / 1000} s. The service does not carry out the action any more; check whether it did before you repeat it.`,
        undefined
      )
    throw unreachable()
  }
  if (response.status === 401 && login === logins) onUnauthorized()
  if (response.ok) {
    const answer = response.status === 204 ? (undefined as A) : await jsonOf<A>(response)
    onReach("service")
    return answer
  }
  const refusal = await refusalOf(response)
  if (isUnread(refusal)) throw unreachable()
  if (refusal.tag === "CellUnreachable") throw isOfService.test(path) ? refusal : unreachable(refusal.message)
  onReach(isDatabaseDown(refusal) ? "no database" : "service")
  throw refusal
}

export const get = <A>(path: string, signal?: AbortSignal): Promise<A> => send("GET", path, undefined, { signal })
export const post = <A>(path: string, body: unknown = {}, typed: Typed = {}): Promise<A> =>
  send("POST", path, body, { typed })
export const patch = <A>(path: string, body: unknown, typed: Typed = {}): Promise<A> =>
  send("PATCH", path, body, { typed })
/** Sends a request that the service has described. */
export const call = <A>({ body, method, path }: { method: string; path: string; body: unknown }): Promise<A> =>
  send(method, path, body ?? undefined)
export const remove = <A>(path: string): Promise<A> => send("DELETE", path)

export { queryText as query } from "./Route"
