import { type Cause, Predicate, Schema } from "effect"

/** How an error is answered outside of the code that fails with it: by the HTTP API, by promises and by commands. */
export interface Answer {
  readonly status: number
  /** The code of the promise API. By default, the tag in capitals: `JobNotFound` is `JOB_NOT_FOUND`. */
  readonly code?: string
  /** The exit code of a command, 1 by default; 2 if the command line or the configuration is invalid. */
  readonly exit?: 1 | 2
  /** The tag in a response. By default, the error's own. */
  readonly tag?: string
  /** The message in a response, if it differs from the error's own: for details that only operators may see. */
  readonly message?: string
  /** The invalid field of the request, if the error has none of this name. */
  readonly field?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Log the error, because the response omits details. */
  readonly logged?: boolean
}

/** An error that carries its answer. Not to be confused with defects and with errors that prevent the start of a process. */
export interface ExpectedError extends Error {
  readonly _tag: string
  readonly answer: Answer
}

/** The class of an error that carries its answer. */
export interface ExpectedErrorClass<Self, Tag extends string, Fields extends Schema.Struct.Fields>
  extends Schema.Class<
    Self,
    Fields,
    Schema.Struct.Encoded<Fields>,
    Schema.Struct.Context<Fields>,
    Schema.Struct.Constructor<Omit<Fields, "_tag">>,
    object,
    Cause.YieldableError & {
      /** How the HTTP API, promises and commands report this error. */
      get answer(): Answer
    }
  > {
  readonly _tag: Tag
  readonly answer: Answer
}

/**
 * A `Schema.TaggedError` that carries its answer. A class whose answer depends on its fields overrides `answer`:
 *
 * class JobNotFound extends Expected<JobNotFound>(404)("JobNotFound", { id: Schema.String }) {}
 */
export const Expected =
  <Self>(status: number, more: Omit<Answer, "status"> = {}) =>
  <Tag extends string, Fields extends Schema.Struct.Fields>(
    tag: Tag,
    fields: Fields
  ): ExpectedErrorClass<
    Self,
    Tag,
    {
      /** Name of the error, for `Effect.catchTag`. */
      readonly _tag: Schema.tag<Tag>
    } & Fields
  > => {
    const Base = Schema.TaggedError<Error>()(tag, fields)
    const answer: Answer = { status, ...more }
    // Defined on the prototype, so that it is no field of the error: it is neither encoded nor logged.
    Object.defineProperty(Base.prototype, "answer", { value: answer, configurable: true })
    return Object.assign(Base, { answer }) as never
  }

export const isExpected = (error: unknown): error is ExpectedError =>
  Predicate.hasProperty(error, "answer") && error instanceof Error

/** The code of the promise API. */
export const codeOf = ({ _tag, answer }: Pick<ExpectedError, "_tag" | "answer">): string =>
  answer.code ?? _tag.replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase()
