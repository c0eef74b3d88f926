// Malicious requests as bytes. Each is one connection; `again` is the number of concurrent ones.

export interface Attack {
  readonly name: string
  readonly bytes: Buffer
  readonly again: number
}

const crlf = "\r\n"
const mib = 1024 * 1024

interface Given {
  readonly again?: number
  readonly headers?: ReadonlyArray<string>
  readonly body?: string | Buffer
  /** The declared length, if it differs from the real one. */
  readonly length?: number | "chunked" | "none"
}

const request = (line: string, { body = "", headers = [], length }: Given): Buffer => {
  const says = length ?? Buffer.byteLength(body)
  const framing = says === "none" ? [] : [says === "chunked" ? "transfer-encoding: chunked" : `content-length: ${says}`]
  const head = [`${line} HTTP/1.1`, "host: localhost", ...framing, ...headers, "", ""].join(crlf)
  return Buffer.concat([Buffer.from(head, "latin1"), Buffer.from(body)])
}

const attack = (name: string, line: string, given: Given = {}): Attack => ({
  name,
  bytes: request(line, given),
  again: given.again ?? 20
})

const raw = (name: string, text: string, again = 20): Attack => ({ name, bytes: Buffer.from(text, "latin1"), again })

const json = "content-type: application/json"
const hub = `x-hub-signature-256: sha256=${"0".repeat(64)}`
const form = "content-type: multipart/form-data; boundary=XbX"
const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`
const wrongToken = `authorization: Bearer nst_01234567${"x".repeat(43)}`

/** Without a token. */
export const anonymous: ReadonlyArray<Attack> = [
  raw("connect and say nothing", ""),
  raw("half a request line", "GET /hea"),
  raw("headers without end", `GET /healthz HTTP/1.1${crlf}host: x${crlf}${"x: y\r\n".repeat(500)}`),
  raw("a header too large", `GET /healthz HTTP/1.1${crlf}host: x${crlf}x: ${"y".repeat(64 * 1024)}${crlf}${crlf}`),
  raw("no HTTP at all", "\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003"),
  raw("another version", `GET /healthz HTTP/9.9${crlf}${crlf}`),
  raw("no host", `GET /healthz HTTP/1.1${crlf}${crlf}`),
  raw(
    "two lengths",
    `POST /api/v1/jobs HTTP/1.1${crlf}host: x${crlf}content-length: 1${crlf}content-length: 2${crlf}${crlf}a`
  ),
  raw(
    "length and coding",
    `POST /api/v1/jobs HTTP/1.1${crlf}host: x${crlf}content-length: 4${crlf}transfer-encoding: chunked${crlf}${crlf}0${crlf}${crlf}`
  ),
  raw(
    "a chunk that is no number",
    `POST /api/v1/jobs HTTP/1.1${crlf}host: x${crlf}transfer-encoding: chunked${crlf}${crlf}zz${crlf}`
  ),
  raw(
    "a chunk without end",
    `POST /api/v1/jobs HTTP/1.1${crlf}host: x${crlf}transfer-encoding: chunked${crlf}${crlf}fffffff${crlf}a`
  ),
  raw("many requests on one connection", `GET /nowhere HTTP/1.1${crlf}host: localhost${crlf}${crlf}`.repeat(200), 5),
  raw(
    "an upgrade",
    `GET / HTTP/1.1${crlf}host: localhost${crlf}connection: upgrade${crlf}upgrade: websocket${crlf}${crlf}`
  ),
  raw("a proxy's request", `CONNECT evil.example:443 HTTP/1.1${crlf}host: evil.example${crlf}${crlf}`),
  raw(
    "expecting to go on",
    `POST /uploads/acme HTTP/1.1${crlf}host: localhost${crlf}expect: 100-continue${crlf}content-length: 9${crlf}${crlf}`
  ),
  attack("a long path", `GET /${"a".repeat(8_000)}`),
  attack("a long query", `GET /api/v1/jobs?${"a=b&".repeat(3_000)}`),
  attack("a path out of the pages", "GET /ui/../../../../etc/passwd"),
  attack("the same, encoded", "GET /ui/%2e%2e/%2e%2e/etc/passwd"),
  attack("a path with NUL", "GET /ui/%00"),
  attack("a broken escape", "GET /api/v1/jobs/%zz"),
  attack("readiness", "GET /readyz", { again: 200 }),
  attack("metrics", "GET /metrics", { again: 50 }),
  attack("health of another host", "GET /readyz", { headers: ["host: evil.example"] }),
  attack("pages", "GET /ui/", { again: 50 }),
  attack("the contract", "GET /api/v1/openapi.json", { again: 20 }),
  attack("the docs", "GET /docs"),
  attack("wrong tokens", "GET /api/v1/jobs", { again: 200, headers: ["authorization: Bearer guess"] }),
  attack("a token of spaces", "GET /api/v1/jobs", { headers: [`authorization: Bearer ${" ".repeat(12_000)}x`] }),
  attack("another scheme", "GET /api/v1/jobs", { headers: ["authorization: Basic YTpi"] }),
  attack("made-up logins", "GET /api/v1/jobs", {
    again: 100,
    headers: [`cookie: nightshift_session=${"x".repeat(43)}`]
  }),
  attack("many cookies", "GET /api/v1/jobs", { headers: [`cookie: ${"a=b; ".repeat(2_500)}`] }),
  attack("a wrong login", "POST /api/v1/session", { headers: [json], body: '{"token":"guess"}', again: 50 }),
  attack("a login from elsewhere", "POST /api/v1/session", {
    headers: [json, "origin: https://evil.example"],
    body: "{}"
  }),
  attack("a login too large", "POST /api/v1/session", { headers: [json], body: "x".repeat(100_000) }),
  attack("a login without end", "POST /api/v1/session", { headers: [json], body: "{", length: 8_000 }),
  attack("a login that nests", "POST /api/v1/session", { headers: [json], body: nested(4_000) }),
  attack("jobs, refused, without end", "POST /api/v1/jobs", {
    headers: [json],
    body: Buffer.alloc(2 * mib),
    length: 1024 * mib
  }),
  attack("jobs by form", "POST /api/v1/jobs", {
    body: "a=b",
    headers: ["content-type: application/x-www-form-urlencoded"]
  }),
  attack("events", "GET /api/v1/events", { again: 100 }),
  attack("any method", "PROPFIND /api/v1/jobs"),
  attack("a webhook of an unknown bot", "POST /hooks/nobody", { headers: [json], body: "{}" }),
  attack("a webhook of an unknown bot, large", "POST /hooks/nobody", { headers: [json], body: Buffer.alloc(mib) }),
  attack("an unsigned webhook", "POST /hooks/ci", { headers: [json], body: "{}" }),
  attack("an unfinished webhook", "POST /hooks/ci", {
    headers: [json, hub],
    body: Buffer.alloc(mib - 1, " "),
    length: mib,
    again: 70
  }),
  attack("a webhook by drops", "POST /hooks/ci", { headers: [json, hub], body: "{", length: 1_000, again: 100 }),
  attack("a webhook with a wrong signature", "POST /hooks/ci", { headers: [json, hub], body: "{}", again: 100 }),
  attack("a webhook that nests", "POST /hooks/ci", { headers: [json, hub], body: nested(100_000) }),
  attack("a webhook too large", "POST /hooks/ci", { headers: [json, hub], body: "", length: 2 * mib }),
  attack("a compressed webhook", "POST /hooks/ci", { headers: [json, hub, "content-encoding: gzip"], body: "{}" }),
  attack("an update without secret", "POST /hooks/telegram/echo", { headers: [json], body: Buffer.alloc(mib) }),
  attack("an update with many secrets", "POST /hooks/telegram/echo", {
    headers: [json, `x-telegram-bot-api-secret-token: ${"s".repeat(8_000)}`],
    body: "{}"
  }),
  attack("a webhook by GET", "GET /hooks/ci"),
  attack("files without token", "POST /uploads/acme", { headers: [form], body: Buffer.alloc(mib) }),
  attack("files with a made-up token", "POST /uploads/acme", { headers: [form, wrongToken], body: "x", again: 100 }),
  attack("files without end", "POST /uploads/acme", { headers: [form], body: Buffer.alloc(mib), length: 1024 * mib }),
  attack("files of no workspace", "GET /uploads/..%2f..%2fetc"),
  attack("a forwarded address", "GET /api/v1/jobs", {
    headers: [`x-forwarded-for: ${"1.1.1.1, ".repeat(1_500)}`, "authorization: Bearer x"]
  }),
  attack("a range of everything", "GET /ui/", { headers: [`range: bytes=${"0-,".repeat(4_000)}`] }),
  attack("tags without end", "GET /ui/", { headers: [`if-none-match: ${'"a",'.repeat(3_000)}`] })
]

const spaces = (count: number) =>
  `${`--XbX${crlf}X: a${" ".repeat(16_000)}b${crlf}Content-Disposition: form-data; name="files"; filename="a"${crlf}${crlf}x${crlf}`.repeat(count)}--XbX--${crlf}`

/** With a token: the admin's for the API, a workspace's for uploads. */
export const authenticated = (admin: string, workspace: string): ReadonlyArray<Attack> => {
  const api = [json, `authorization: Bearer ${admin}`]
  const upload = [form, `authorization: Bearer ${workspace}`]
  const file = (head: string, content = "x") => `--XbX${crlf}${head}${crlf}${crlf}${content}${crlf}--XbX--${crlf}`
  const disposition = (more: string) => `Content-Disposition: form-data; name="files"; filename=${more}`
  const jobs = (payload: string) => `{"jobs":[{"kind":"build","payload":${payload}}]}`
  return [
    attack("heads full of spaces", "POST /uploads/acme", { headers: upload, body: spaces(64), again: 4 }),
    attack("a name full of dots", "POST /uploads/acme", {
      headers: upload,
      body: file(disposition(`"${".".repeat(12_000)}x"`))
    }),
    attack("a name of ligatures", "POST /uploads/acme", {
      headers: upload,
      body: file(disposition(`"${"ﷺ".repeat(4_000)}"`))
    }),
    attack("a name with a broken escape", "POST /uploads/acme", {
      headers: upload,
      body: file(disposition("a; filename*=UTF-8''%zz"))
    }),
    attack("many parts", "POST /uploads/acme", {
      headers: upload,
      body: `--XbX${crlf}${crlf}${crlf}`.repeat(20_000),
      again: 4
    }),
    attack("a boundary almost", "POST /uploads/acme", {
      headers: upload,
      body: file(disposition('"a"'), "\r\n--Xb".repeat(100_000)),
      again: 4
    }),
    attack("files that never end", "POST /uploads/acme", {
      headers: upload,
      body: file(disposition('"a"')),
      length: 50 * mib,
      again: 70
    }),
    attack("files that are empty", "POST /uploads/acme", { headers: upload, body: file(disposition('"a"'), "") }),
    attack("files too large", "POST /uploads/acme", { headers: upload, body: "", length: 1024 * mib }),
    attack("payloads that nest", "POST /api/v1/jobs", { headers: api, body: jobs(nested(50_000)) }),
    attack("payloads of a mebibyte", "POST /api/v1/jobs", {
      headers: api,
      body: jobs(`"${"x".repeat(900_000)}"`),
      again: 10
    }),
    attack("a thousand jobs", "POST /api/v1/jobs", {
      headers: api,
      body: `{"jobs":[${Array(1_000).fill('{"kind":"build","payload":1}').join()}]}`,
      again: 5
    }),
    attack("jobs without end", "POST /api/v1/jobs", { headers: api, body: '{"jobs":[', length: 10 * mib, again: 50 }),
    attack("a filter that finds nothing", "GET /api/v1/jobs?text=zzzz&payload=%7B%22a%22%3A1%7D", {
      headers: api,
      again: 30
    }),
    attack("a filter of many values", `GET /api/v1/jobs?${"kind=a&".repeat(1_500)}`, { headers: api }),
    attack("a cursor that is none", `GET /api/v1/jobs?cursor=${"0".repeat(8_000)}`, { headers: api }),
    attack("an expression without end", `GET /api/v1/expressions?cron=${encodeURIComponent("0-59,".repeat(1_500))}`, {
      headers: api
    }),
    attack("an expression that never comes", "GET /api/v1/expressions?cron=0%200%2031%202%20*&count=100", {
      headers: api
    }),
    attack("events, many", "GET /api/v1/events", { headers: api, again: 120 }),
    attack(
      "a year of points",
      "GET /api/v1/metrics/series?from=2000-01-01T00:00:00Z&to=2030-01-01T00:00:00Z&bucket=1m",
      { headers: api }
    )
  ]
}
