import { Data } from "effect"

/** Faults of the emulated Bot API. */
export type EmulatedFault = Data.TaggedEnum<{
  /** 429 with `retry_after` in seconds. */
  Throttled: {
    /** Seconds after which the call may be repeated. */
    readonly retryAfter: number
  }
  /** A server error. */
  Broken: {
    /** HTTP status of the response. [500] */
    readonly status?: number
  }
  /** 403: the user has blocked the bot. */
  Blocked: {}
  /** 400: the group was upgraded to a supergroup with another id. */
  Migrated: {
    /** Id of the new supergroup. */
    readonly to: number
  }
  /** 4xx with a custom description. */
  Refused: {
    /** HTTP status of the response. */
    readonly status: number
    /** Text that the response carries. */
    readonly description: string
  }
  /** Reads the request and never responds. */
  Hang: {}
  /** Carries out the call, then closes the connection without a response. */
  Drop: {}
}>
export const EmulatedFault = Data.taggedEnum<EmulatedFault>()

/** Returns the response of a fault, or undefined if it has none. */
export const answerOf = (fault: EmulatedFault): { readonly status: number; readonly body: object } | undefined => {
  const answer = (status: number, description: string, parameters?: object) => ({
    status,
    body: { ok: false, error_code: status, description, ...(parameters === undefined ? {} : { parameters }) }
  })
  switch (fault._tag) {
    case "Throttled":
      return answer(429, `Too Many Requests: retry after ${fault.retryAfter}`, { retry_after: fault.retryAfter })
    case "Broken":
      return answer(fault.status ?? 500, "Internal Server Error")
    case "Blocked":
      return answer(403, "Forbidden: bot was blocked by the user")
    case "Migrated":
      return answer(400, "Bad Request: group chat was upgraded to a supergroup chat", { migrate_to_chat_id: fault.to })
    case "Refused":
      return answer(fault.status, fault.description)
    case "Hang":
    case "Drop":
      return undefined
  }
}
