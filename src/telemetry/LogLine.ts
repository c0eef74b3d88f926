import {
  Array,
  Cause,
  Context,
  FiberRef,
  FiberRefs,
  HashMap,
  type Logger,
  type LogLevel,
  Option,
  Predicate,
  Tracer
} from "effect"
import type { Level } from "./Level.js"
import * as LogValue from "./LogValue.js"
import * as Masking from "./Masking.js"
import { nearest } from "./tracing/OtlpSpan.js"

export type { Level }

/** One log event: plain JSON with the same names for every destination. */
export interface LogLine {
  readonly time: string
  readonly level: Level
  readonly msg: string
  readonly [field: string]: unknown
}

/** Names of the annotations that only Nightshift sets, so that those of a program do not replace them. */
export const jobAnnotation = "nightshift.job"
export const processAnnotation = "nightshift.process"
export const stepAnnotation = "nightshift.step"

const levels: Readonly<Record<LogLevel.LogLevel["_tag"], Level>> = {
  All: "trace",
  Trace: "trace",
  Debug: "debug",
  Info: "info",
  Warning: "warn",
  Error: "error",
  Fatal: "fatal",
  None: "fatal"
}

/** Fields with a meaning of their own. A field of the program with one of these names is moved to `fields`. */
const reserved = new Set([
  ...["time", "level", "msg", "error", "fields", "spans"],
  ...["job", "kind", "queue", "attempt", "execution", "step", "process", "trace", "span"]
])

const isPlainObject = (value: unknown): value is object =>
  Predicate.isRecord(value) && [Object.prototype, null].includes(Object.getPrototypeOf(value))

/** What was logged: plain objects are fields, errors are errors, and everything else is text. */
const partsOf = (message: unknown) => {
  const words: Array<unknown> = []
  const fields: Array<object> = []
  const errors: Array<unknown> = []
  for (const part of Array.isArray(message) ? message : [message]) {
    try {
      if (part instanceof Error) errors.push(part)
      else if (isPlainObject(part)) fields.push(part)
      else words.push(part)
    } catch {
      // A trap of a proxy threw.
      words.push(LogValue.unreadable)
    }
  }
  // A line that is only an error says what its message says.
  const [only] = errors
  if (words.length === 0 && only instanceof Error) words.push(only.message)
  return { words, fields, errors }
}

/** The data that the annotations attach to the line. */
const dataIn = (annotations: HashMap.HashMap<string, unknown>): unknown => {
  const job = Option.getOrUndefined(HashMap.get(annotations, jobAnnotation))
  return Predicate.hasProperty(job, Masking.dataOf) ? job[Masking.dataOf] : undefined
}

/**
 * The job that the line is about: its id, kind, queue and attempt, and the execution that it belongs to. Only the id of
 * the execution is made of the payload.
 */
const jobOf = (annotation: unknown, text: (given: string) => string): Readonly<Record<string, unknown>> => {
  const facts: unknown =
    Predicate.hasProperty(annotation, "toJSON") && typeof annotation.toJSON === "function"
      ? annotation.toJSON()
      : annotation
  if (!Predicate.isRecord(facts)) return {}
  const { execution, id, ...others } = facts
  const shown = { job: id, ...others, execution: typeof execution === "string" ? text(execution) : undefined }
  return Object.fromEntries(Object.entries(shown).filter(([, value]) => value !== undefined))
}

/** The trace that the line belongs to, if traces are exported. */
const traceOf = (context: FiberRefs.FiberRefs) => {
  const services = FiberRefs.getOrDefault(context, FiberRef.currentContext)
  const span = nearest(Context.getOption(services as Context.Context<Tracer.ParentSpan>, Tracer.ParentSpan))
  return Option.match(span, { onNone: () => ({}), onSome: ({ spanId, traceId }) => ({ trace: traceId, span: spanId }) })
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value) ?? "undefined"))

/** Makes lines of log events. Fields with these names, and the values of such fields of a job's payload, are hidden. */
export const make = (masked: ReadonlyArray<string>) => {
  const mask = Masking.make(masked)
  const maskText = Masking.makeText(masked)
  return ({ annotations, cause, context, date, logLevel, message, spans }: Logger.Logger.Options<unknown>): LogLine => {
    const data = dataIn(annotations)
    const { plain, text } = LogValue.make((given) => maskText(given, data))
    const safe = (value: unknown) => mask(plain(value))
    const wordOf = (word: unknown) => (typeof word === "string" ? word : safe(word))
    const { errors, fields, words } = partsOf(message)
    const {
      [jobAnnotation]: job,
      [processAnnotation]: process,
      [stepAnnotation]: step,
      ...annotated
    } = Object.fromEntries(annotations)
    const [unreadable, readable] = Array.partition([annotated, ...fields].map(safe), Predicate.isRecord)
    const { error, ...others }: Record<string, unknown> = Object.assign({}, ...readable)
    const [free, taken] = Array.partition(Object.entries(others), ([name]) => reserved.has(name))
    const texts = [
      ...(error === undefined ? [] : [textOf(error)]),
      ...errors.map((each) => text(LogValue.errorText(each))),
      ...(Cause.isEmpty(cause) ? [] : [text(LogValue.causeText(cause))])
    ]
    const times = Array.fromIterable(spans).map(({ label, startTime }) => [label, date.getTime() - startTime] as const)
    return {
      time: date.toISOString(),
      level: levels[logLevel._tag],
      // Masked as a whole, because one word may be the name of the next.
      msg: text([...words.map(wordOf), ...unreadable].map(textOf).join(" ")),
      ...jobOf(job, text),
      ...(typeof step === "string" ? { step: text(step) } : {}),
      ...(process === undefined ? {} : { process }),
      ...traceOf(context),
      ...Object.fromEntries(free),
      ...(taken.length === 0 ? {} : { fields: Object.fromEntries(taken) }),
      ...(times.length === 0 ? {} : { spans: Object.fromEntries(times) }),
      ...(texts.length === 0 ? {} : { error: texts.join("\n") })
    }
  }
}

/** Characters that JSON allows in a text and that some programs take for the end of a line, or for an escape sequence. */
const unsafe = /[\u007f-\u009f\u2028\u2029]/g

/** One line of JSON. */
export const json = (line: LogLine): string =>
  JSON.stringify(line).replace(unsafe, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`)
