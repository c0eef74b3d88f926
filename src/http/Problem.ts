import * as HttpServerResponse from "@effect/platform/HttpServerResponse"

/** The one form in which a door says no: a tag for programs, a sentence for people, the field at fault if there is one. */
export const respond = (
  status: number,
  tag: string,
  message: string,
  field?: string
): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.unsafeJson({ error: { tag, message, ...(field === undefined ? {} : { field }) } }, { status })
