import { useEffect, useState } from "preact/hooks"

// The route is in the URL fragment: the pages work behind any path prefix, and a copied URL contains all filters.

export interface Route {
  /** Path segments, such as `jobs` and an id. */
  readonly path: ReadonlyArray<string>
  readonly query: URLSearchParams
}

export const read = (hash: string): Route => {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?")
  return {
    path: path
      .split("/")
      .filter((word) => word !== "")
      .map(decodeURIComponent),
    query: new URLSearchParams(query)
  }
}

/** Query parameters with one or several values; undefined and empty ones are omitted. */
export type Query = Readonly<Record<string, string | ReadonlyArray<string> | undefined>>

/** Builds a URL. A parameter with several values is repeated. */
export const to = (path: string, query: Query = {}): string => {
  const kept = Object.entries(query).flatMap(([name, value]) =>
    [value ?? []].flat().flatMap((one) => (one === "" ? [] : [[name, one]]))
  )
  return kept.length === 0 ? `#/${path}` : `#/${path}?${new URLSearchParams(kept)}`
}

export const go = (address: string): void => {
  location.hash = address
}

/** Changes query parameters of the current page. Back undoes it, unless it replaces the entry of the history. */
export const refine = (route: Route, change: Query, entry: "push" | "replace" = "push"): void => {
  const standing = [...new Set(route.query.keys())].map((name) => [name, route.query.getAll(name)])
  const query = { ...Object.fromEntries(standing), ...change }
  const address = to(route.path.map(encodeURIComponent).join("/"), query)
  if (address === location.hash) return
  history[`${entry}State`](null, "", address)
  dispatchEvent(new HashChangeEvent("hashchange"))
}

export const useRoute = (): Route => {
  const [route, setRoute] = useState(() => read(location.hash))
  useEffect(() => {
    const listen = () => setRoute(read(location.hash))
    addEventListener("hashchange", listen)
    return () => removeEventListener("hashchange", listen)
  }, [])
  return route
}
