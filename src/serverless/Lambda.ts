/** An event of AWS Lambda: of a function URL, or of an API Gateway in either format. */
export interface LambdaEvent {
  /** Headers of the request. */
  readonly headers?: Readonly<Record<string, string | undefined>> | null | undefined
  /** Body of the request, as text or in base64. */
  readonly body?: string | null | undefined
  /** Whether the body is in base64. */
  readonly isBase64Encoded?: boolean | undefined
  /** Method of the request, in the first format. */
  readonly httpMethod?: string | undefined
  /** Method of the request, in the second format. */
  readonly requestContext?:
    | {
        /** The HTTP request that caused the event. Absent in the first format. */
        readonly http?:
          | {
              /** In capitals, such as `POST`. */
              readonly method?: string | undefined
            }
          | undefined
      }
    | undefined
}

/** The part of Lambda's context that is used. */
export interface LambdaContext {
  /** How long the function may still run, in milliseconds. */
  readonly getRemainingTimeInMillis?: (() => number) | undefined
}

/** A response in the form that Lambda expects. */
export interface LambdaResponse {
  /** From 200 to 503, as a response of `fetch` would have. */
  readonly statusCode: number
  /** Names in lower case, among them `nightshift-outcome` if the attempt did not simply end. */
  readonly headers: Readonly<Record<string, string>>
  /** The job's result as JSON, or the text of an error; empty without a result. */
  readonly body: string
}

/** Time for a handler to return after its signal was aborted, and before Lambda ends the function. */
const lastMillis = 500

/** The event as a request. */
export const requestOf = ({ body, headers, httpMethod, isBase64Encoded, requestContext }: LambdaEvent): Request => {
  const method = requestContext?.http?.method ?? httpMethod ?? "POST"
  const given = Object.entries(headers ?? {}).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))
  const text = body ?? ""
  const content = isBase64Encoded === true ? Uint8Array.from(atob(text), (byte) => byte.charCodeAt(0)) : text
  return new Request("https://lambda.invalid/", {
    method,
    headers: given as Array<[string, string]>,
    ...(method === "POST" ? { body: content } : {})
  })
}

/** Aborted shortly before Lambda ends the function. */
export const signalOf = (context: LambdaContext | undefined): AbortSignal => {
  const left = context?.getRemainingTimeInMillis?.()
  return left === undefined ? new AbortController().signal : AbortSignal.timeout(Math.max(0, left - lastMillis))
}

/** The response for Lambda. */
export const responseOf = async (response: Response): Promise<LambdaResponse> => ({
  statusCode: response.status,
  headers: Object.fromEntries(response.headers),
  body: await response.text()
})
