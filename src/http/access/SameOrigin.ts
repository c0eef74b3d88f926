type Headers = Readonly<Record<string, string | undefined>>

/** Where the request was sent to, as the browser knows it: a proxy in front may have another name for us. */
const hostOf = (headers: Headers) => headers["x-forwarded-host"]?.split(",")[0]?.trim() ?? headers.host

const hostIn = (origin: string): string | undefined => (URL.canParse(origin) ? new URL(origin).host : undefined)

/** Whether a page of ours sent the request. Browsers say so themselves; those that do not yet say at least the page's origin. */
export const isSameOrigin = (headers: Headers): boolean => {
  const site = headers["sec-fetch-site"]
  if (site !== undefined) return site === "same-origin"
  const { origin } = headers
  return origin !== undefined && hostIn(origin) !== undefined && hostIn(origin) === hostOf(headers)
}

/** Whether a page of somebody else sent it. A program that is no browser says nothing about pages. */
export const isForeign = (headers: Headers): boolean =>
  (headers["sec-fetch-site"] !== undefined || headers.origin !== undefined) && !isSameOrigin(headers)
