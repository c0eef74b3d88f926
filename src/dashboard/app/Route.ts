import { useEffect, useState } from "preact/hooks"

// The route is in the URL fragment: the pages work behind any path prefix, and a copied URL contains all filters.

export interface Route {
  /** The cell of the fleet; undefined for that of the service. */
  readonly cell: string | undefined
  /** Path segments, such as `jobs` and an id. */
  readonly path: ReadonlyArray<string>
  readonly query: URLSearchParams
}

/** Decodes a word of a path. A broken link has words that are not encoded properly; they are kept as they are. */
const decoded = (word: string): string => {
  try {
    return decodeURIComponent(word)
  } catch {
    return word
  }
}

/** The path and the query of a fragment. The query may contain question marks. */
export const halves = (hash: string): readonly [path: string, query: string] => {
  const at = hash.indexOf("?")
  return at === -1 ? [hash, ""] : [hash.slice(0, at), hash.slice(at + 1)]
}

export const read = (hash: string): Route => {
  const [given, query] = halves(hash.replace(/^#\/?/, ""))
  const words = given
    .split("/")
    .filter((word) => word !== "")
    .map(decoded)
  const [first, cell] = words
  const isOther = first === "cells" && cell !== undefined
  // The token of a login link is not a filter: it must not reach the URL of a request.
  const filters = new URLSearchParams(query)
  filters.delete("token")
  return {
    cell: isOther ? cell : undefined,
    path: isOther ? words.slice(2) : words,
    query: filters
  }
}

/** The cell that this page shows. Another one needs another page, so that nothing of two cells can be mixed. */
export const shownCell = read(globalThis.location?.hash ?? "").cell

const prefixOf = (cell: string | undefined) => (cell === undefined ? "#/" : `#/cells/${encodeURIComponent(cell)}/`)

/** The same page of another cell; undefined for that of the service. */
export const inCell = (cell: string | undefined, address: string): string =>
  address.replace(prefixOf(shownCell), prefixOf(cell))

/** Query parameters with one or several values; undefined and empty ones are omitted. */
export type Query = Readonly<Record<string, string | ReadonlyArray<string> | undefined>>

/** Builds the query of a URL. Skips empty values and repeats the name for arrays. */
export const queryText = (
  values: Readonly<Record<string, string | number | ReadonlyArray<string> | undefined | null>>
): string => {
  const kept = Object.entries(values).flatMap(([name, value]) =>
    [value ?? []].flat().flatMap((one) => (one === "" ? [] : [[name, String(one)]]))
  )
  return kept.length === 0 ? "" : `?${new URLSearchParams(kept)}`
}

/** Builds a URL. A parameter with several values is repeated. */
export const to = (path: string, query: Query = {}): string => `${prefixOf(shownCell)}${path}${queryText(query)}`

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
    const listen = () => {
      const next = read(location.hash)
      if (next.cell === shownCell) setRoute(next)
      else location.reload()
    }
    addEventListener("hashchange", listen)
    return () => removeEventListener("hashchange", listen)
  }, [])
  return route
}
