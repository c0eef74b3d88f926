/**
 * Parses an http or https URL. Node 24 and later reject some long ones that `URL.canParse` accepts, so only the
 * constructor decides.
 */
export const parse = (text: string, base?: URL): URL | undefined => {
  try {
    const url = new URL(text, base)
    return /^https?:$/.test(url.protocol) ? url : undefined
  } catch {
    return undefined
  }
}

/** A URL without its path and query, which are often secret. */
export const shownOrigin = (text: string): string => {
  const origin = parse(text)?.origin
  return origin === undefined ? "…" : `${origin}/…`
}

/** The host as a URL contains it. */
export const hostText = (host: string): string => (host.includes(":") ? `[${host}]` : host)

/** Parses an http or https URL without credentials. */
export const plain = (text: string): URL | undefined => {
  const url = parse(text)
  return url !== undefined && url.username === "" && url.password === "" ? url : undefined
}

/** Hides the credentials of URLs in a text that is shown. */
export const withoutCredentials = (text: string): string => text.replace(/:\/\/[^/?#"]*@/g, "://…@")
