type Headers = Readonly<Record<string, string | undefined>>

/** The host as the browser knows it. A proxy may use a different one to reach us. */
const hostOf = (headers: Headers) => headers["x-forwarded-host"]?.split(",")[0]?.trim() ?? headers.host

const hostIn = (origin: string): string | undefined => (URL.canParse(origin) ? new URL(origin).host : undefined)

/** Whether one of our own pages sent the request. Uses Sec-Fetch-Site, or Origin for older browsers. */
export const isSameOrigin = (headers: Headers): boolean => {
  const site = headers["sec-fetch-site"]
  if (site !== undefined) return site === "same-origin"
  const { origin } = headers
  return origin !== undefined && hostIn(origin) !== undefined && hostIn(origin) === hostOf(headers)
}

/** Whether another site's page sent the request. Programs send neither header. */
export const isForeign = (headers: Headers): boolean =>
  (headers["sec-fetch-site"] !== undefined || headers.origin !== undefined) && !isSameOrigin(headers)
