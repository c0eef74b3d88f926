import { type Issue, issueOf, type RawIssue } from "./Issues.js"

// The Standard Schema interface, version 1 (standardschema.dev). Its authors recommend copying it.

/** A validator: zod, valibot, arktype, an Effect Schema made by `Schema.standardSchemaV1`, and others. */
export interface StandardSchema<Input = unknown, Output = Input> {
  /** The interface of the standard, version 1. */
  readonly "~standard": {
    /** Always 1. */
    readonly version: 1
    /** Name of the library, such as `zod`. */
    readonly vendor: string
    /** Returns the validated value, or what is wrong with it. */
    readonly validate: (value: unknown) => Validation<Output> | Promise<Validation<Output>>
    /** Carries the types of the validator. Absent at run time. */
    readonly types?:
      | {
          /** Type of the values that the validator accepts. */
          readonly input: Input
          /** Type of the values that the validator returns. */
          readonly output: Output
        }
      | undefined
  }
}

type Validation<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: ReadonlyArray<RawIssue> }

/** A value that passed, or what is wrong with it. @internal */
export type Checked<A> = { readonly value: A; readonly issues?: undefined } | { readonly issues: ReadonlyArray<Issue> }

const checkedOf = <A>(result: Validation<A>): Checked<A> =>
  result.issues === undefined ? result : { issues: Array.from(result.issues, issueOf) }

/** Validates a value. Returns a promise only if the validator is asynchronous. @internal */
export const check = <A>(
  schema: StandardSchema<unknown, A> | StandardSchema<never, A>,
  value: unknown
): Checked<A> | Promise<Checked<A>> => {
  const result = schema["~standard"].validate(value)
  return result instanceof Promise ? result.then((late) => checkedOf<A>(late)) : checkedOf<A>(result)
}
