import { useEffect, useState } from "preact/hooks"

// Where we are stands behind the #: the server never sees it, so the pages work under any prefix, and a copied address holds
// every filter.

export interface Route {
  /** The words between the slashes: `jobs`, then perhaps an id. */
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

/** A filter with one value or several; what is undefined or empty is left out. */
export type Query = Readonly<Record<string, string | ReadonlyArray<string> | undefined>>

/** The address of a place. A filter with several values stands there once for each. */
export const to = (path: string, query: Query = {}): string => {
  const kept = Object.entries(query).flatMap(([name, value]) =>
    [value ?? []].flat().flatMap((one) => (one === "" ? [] : [[name, one]]))
  )
  return kept.length === 0 ? `#/${path}` : `#/${path}?${new URLSearchParams(kept)}`
}

export const go = (address: string): void => {
  location.hash = address
}

/** The same place with other filters; typing does not fill the history. */
export const refine = (route: Route, change: Query): void => {
  const standing = [...new Set(route.query.keys())].map((name) => [name, route.query.getAll(name)])
  const query = { ...Object.fromEntries(standing), ...change }
  history.replaceState(null, "", to(route.path.map(encodeURIComponent).join("/"), query))
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
