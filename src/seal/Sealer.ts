import { Effect, Either, FiberRef, GlobalValue } from "effect"
import type { Codec } from "../codec/Codec.js"
import { after, type Soon } from "../codec/DataKeys.js"
import * as ErrorText from "../core/ErrorText.js"
import type { Answer } from "../core/ExpectedError.js"
import * as Sealed from "../core/Sealed.js"
import { jsonText } from "../core/Storable.js"
import { DatabaseUnavailable } from "../database/DatabaseError.js"

/** The keys that seal or open a value cannot be used. Nothing was stored, and the call can be retried. */
export class KeysUnavailable extends DatabaseUnavailable {
  constructor(detail: string) {
    super({ detail, nothingWritten: true })
  }

  override get message(): string {
    return `The keys of sealed values are not available: ${this.detail}. Nothing was changed.`
  }

  override get answer(): Answer {
    return {
      ...super.answer,
      message: "The keys of sealed values are not available; nothing was changed. Try again."
    }
  }

  override get connectionLost(): boolean {
    return false
  }
}

/**
 * What reads return for sealed values: `open` and `shown` the value, `hidden` its key and size. If no key opens a value, `shown`
 * returns its key and size as well, and `open` does so for views of jobs; reads of results fail.
 */
export type Reading = "open" | "shown" | "hidden"

/** How sealed values are read in a fiber. */
export const reading: FiberRef.FiberRef<Reading> = GlobalValue.globalValue("nightshift/seal/reading", () =>
  FiberRef.unsafeMake<Reading>("open")
)

/** Waits for all values of a list, if any is a promise. */
export const all = <A>(values: ReadonlyArray<Soon<A>>): Soon<ReadonlyArray<A>> =>
  values.some((value) => value instanceof Promise)
    ? Promise.all(values as ReadonlyArray<A>)
    : (values as ReadonlyArray<A>)

/** A value with what could not be opened in it. */
export interface Attempt<A> {
  readonly value: A
  readonly fault: Sealed.Unopened | undefined
}

const reasonOf = (error: unknown): Sealed.Unopened =>
  new Sealed.Unopened(
    `a sealed value cannot be opened: ${ErrorText.messageOf(error).replace(/\.$/, "")}`,
    error instanceof Error && error.name === "DamagedValueError"
  )

const parsed = (json: string): unknown => {
  const value: unknown = JSON.parse(json)
  Sealed.markOpen(value)
  return value
}

/** Depth of what ports return: the fields of a page of executions, above the values themselves. */
const fields = 9

const damaged = { name: "DamagedValueError" }

/** Seals and opens values. */
export class Sealer {
  constructor(readonly codec: Codec) {}

  /** Whether this process seals what it stores. */
  get seals(): boolean {
    return this.codec.openOnly !== true
  }

  /** Seals JSON text. Returns the value that is stored instead. Throws or rejects if the codec does. */
  seal(json: string): Soon<unknown> {
    if (!this.seals) return JSON.parse(json)
    return after(this.codec.seal(json), ({ key, text }) => {
      if (!Sealed.isKeyId(key)) throw new Error(`the codec returned an invalid key id: it ${Sealed.keyIdRule}`)
      return Sealed.make(key, text)
    })
  }

  /** The same as JSON text. */
  sealText(json: string): Soon<string> {
    return this.seals ? after(this.seal(json), (sealed) => JSON.stringify(sealed)) : json
  }

  /** Seals a value, unless it breaks a limit: the store then refuses it with its own message. */
  value(given: unknown, maxBytes: number): Soon<unknown> {
    if (!this.seals || given === undefined) return given
    const text = jsonText(given, maxBytes)
    return Either.isLeft(text) ? given : this.seal(text.right)
  }

  /** Opens the sealed values in a value. Keeps those that it cannot open, and reports the first of them. */
  attempt<A>(value: A, levels?: number): Soon<Attempt<A>> {
    return after(
      this.openAll(value, (sealed) => sealed, levels),
      ({ fault, value: made }) => ({
        value: made as A,
        fault
      })
    )
  }

  private openAll(value: unknown, failed: (sealed: Sealed.Sealed) => unknown, levels?: number): Soon<Attempt<unknown>> {
    let fault: Sealed.Unopened | undefined
    let waits = false
    const results = new Map<Sealed.Sealed, Soon<unknown>>()
    const refused = (sealed: Sealed.Sealed, error: unknown) => {
      fault ??= reasonOf(error)
      return failed(sealed)
    }
    const open = (sealed: Sealed.Sealed): Soon<unknown> => {
      try {
        const parts = Sealed.partsOf(sealed)
        if (parts === undefined) return refused(sealed, Object.assign(new Error("it names no key"), damaged))
        const json = this.codec.open(parts)
        if (!(json instanceof Promise)) return parsed(json)
        waits = true
        return json.then(parsed).catch((error: unknown) => refused(sealed, error))
      } catch (error) {
        return refused(sealed, error)
      }
    }
    const made = Sealed.replaced(
      value,
      (sealed) => {
        const result = open(sealed)
        results.set(sealed, result)
        return result
      },
      levels
    )
    if (!waits) return { value: made, fault }
    return Promise.all([...results].map(async ([sealed, result]) => [sealed, await result] as const)).then((known) => {
      const values = new Map(known)
      return { value: Sealed.replaced(value, (sealed) => values.get(sealed), levels), fault }
    })
  }

  /** Opens what a read returned, with all its fields, as the fiber may see it. */
  readonly read = <A>(found: A): Effect.Effect<A> =>
    Effect.flatMap(FiberRef.get(reading), (mode) =>
      mode === "hidden"
        ? Effect.succeed(Sealed.replaced(found, Sealed.shown, fields) as A)
        : lifted(() =>
            after(this.openAll(found, Sealed.shown, fields), ({ value }) => Sealed.opened(found, value as A))
          )
    )

  /** The same for results that the caller's code uses: fails if one cannot be opened. */
  readonly readAll = <A>(found: A): Effect.Effect<A, DatabaseUnavailable> =>
    Effect.flatMap(FiberRef.get(reading), (mode) => (mode === "open" ? this.use(found) : this.read(found)))

  /** Opens a value for the code of a run, whatever the fiber may see. */
  readonly use = <A>(found: A): Effect.Effect<A, DatabaseUnavailable> =>
    Effect.flatMap(
      lifted(() => this.attempt(found, fields)),
      ({ fault, value }) => (fault === undefined ? Effect.succeed(value) : new KeysUnavailable(fault.reason))
    )
}

/** Runs what seals or opens, and waits only if it must. */
export const lifted = <A>(run: () => Soon<A>): Effect.Effect<A> =>
  Effect.suspend(() => {
    const made = run()
    return made instanceof Promise ? Effect.promise(() => made) : Effect.succeed(made)
  })

/** The same for what can fail. */
export const sealing = <A>(run: () => Soon<A>): Effect.Effect<A, DatabaseUnavailable> =>
  Effect.suspend(() => {
    try {
      const made = run()
      return made instanceof Promise
        ? Effect.tryPromise({ try: () => made, catch: (error) => new KeysUnavailable(ErrorText.messageOf(error)) })
        : Effect.succeed(made)
    } catch (error) {
      return new KeysUnavailable(ErrorText.messageOf(error))
    }
  })
