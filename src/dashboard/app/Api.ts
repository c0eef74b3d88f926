// Client of the HTTP API. URLs are relative (`/ui/` to `/api/`), so that the pages work behind any path prefix.

const base = new URL("../api/v1/", new URL(".", location.href.split("#")[0]))

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

export const address = (path: string): string => new URL(path, base).href

const refusalOf = async (response: Response): Promise<ApiError> => {
  const body: unknown = await response.json().catch(() => undefined)
  const error =
    typeof body === "object" && body !== null && "error" in body
      ? (body.error as { tag: string; message: string; field?: string })
      : { tag: "Unreadable", message: `The service returned ${response.status}.` }
  return new ApiError(response.status, error.tag, error.message, "field" in error ? error.field : undefined)
}

/** Called on every 401 response. */
let onUnauthorized: () => void = () => {}
export const whenUnauthorized = (listener: () => void): void => {
  onUnauthorized = listener
}

/** Called after every request: whether the service responded. */
let onReach: (isReached: boolean) => void = () => {}
export const whenReached = (listener: (isReached: boolean) => void): void => {
  onReach = listener
}

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
  let response: Response
  try {
    response = await fetch(address(path), {
      method,
      credentials: "same-origin",
      ...(signal === undefined ? {} : { signal }),
      ...(body === undefined ? {} : { headers: { "content-type": "application/json" }, body: bodyOf(body, typed) })
    })
  } catch (error) {
    if (signal?.aborted === true) throw error
    onReach(false)
    throw new ApiError(0, "Unreachable", "The service is not reachable.", undefined)
  }
  onReach(true)
  if (response.status === 401) onUnauthorized()
  if (!response.ok) throw await refusalOf(response)
  return response.status === 204 ? (undefined as A) : ((await response.json()) as A)
}

export const get = <A>(path: string, signal?: AbortSignal): Promise<A> => send("GET", path, undefined, { signal })
export const post = <A>(path: string, body: unknown = {}, typed: Typed = {}): Promise<A> =>
  send("POST", path, body, { typed })
export const patch = <A>(path: string, body: unknown, typed: Typed = {}): Promise<A> =>
  send("PATCH", path, body, { typed })
export const remove = <A>(path: string): Promise<A> => send("DELETE", path)

/** Builds a query string. Skips empty values and repeats the name for arrays. */
export const query = (
  values: Readonly<Record<string, string | number | ReadonlyArray<string> | undefined | null>>
): string => {
  const kept = Object.entries(values).flatMap(([name, value]) =>
    [value ?? []].flat().flatMap((one) => (one === "" ? [] : [[name, String(one)]]))
  )
  return kept.length === 0 ? "" : `?${new URLSearchParams(kept)}`
}
