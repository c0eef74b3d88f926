import { Either, Option, Redacted } from "effect"
import * as HttpUrl from "../../core/HttpUrl.js"
import * as Setting from "../../core/Setting.js"

const readUrl = (text: string): Either.Either<string, string> => {
  const expected = "an http or https URL like http://localhost:4318"
  const url = HttpUrl.parse(text)
  if (url === undefined) return Either.left(expected)
  return url.username === "" && url.password === ""
    ? Either.right(text)
    : Either.left("a URL without a password; send credentials with OTEL_EXPORTER_OTLP_HEADERS")
}

/** Parses `name=value,name=value`, with percent-encoded values. */
const readHeaders = (text: string): Either.Either<ReadonlyArray<readonly [name: string, value: string]>, string> => {
  const pairs = text.split(",").map((pair) => pair.split("="))
  try {
    const headers = pairs.map(
      ([name = "", ...value]) => [name.trim(), decodeURIComponent(value.join("=").trim())] as const
    )
    // `Headers` rejects invalid names and values.
    for (const [name, value] of headers) new Headers([[name, value]])
    return Either.right(headers)
  } catch {
    return Either.left("headers like name=value,other=value")
  }
}

export const settings = {
  endpoint: Setting.optionalText(
    {
      key: "OTEL_EXPORTER_OTLP_ENDPOINT",
      about: "URL of the collector for job traces (OTLP over HTTP, JSON). Tracing is off if unset."
    },
    readUrl
  ),
  headers: Setting.secret(
    { key: "OTEL_EXPORTER_OTLP_HEADERS", about: "Headers to send to the collector, as `name=value,other=value`." },
    (text) => Either.map(readHeaders(text), () => text)
  ),
  serviceName: Setting.text({ key: "OTEL_SERVICE_NAME", about: "Name of this service in traces." }, "nightshift"),
  disabled: Setting.boolean(
    { key: "OTEL_SDK_DISABLED", about: "Disable tracing regardless of the other settings." },
    false
  )
}

export interface Collector {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly serviceName: string
}

/** Returns the configured collector; undefined if there is none or tracing is disabled. */
export const collectorOf = ({
  disabled,
  endpoint,
  headers,
  serviceName
}: Setting.Values<typeof settings>): Collector | undefined => {
  if (disabled || Option.isNone(endpoint)) return undefined
  const given = Option.match(headers, {
    onNone: () => [],
    onSome: (text) => Either.getOrElse(readHeaders(Redacted.value(text)), () => [])
  })
  return {
    url: `${endpoint.value.replace(/\/+$/, "")}/v1/traces`,
    headers: Object.fromEntries(given),
    serviceName
  }
}
