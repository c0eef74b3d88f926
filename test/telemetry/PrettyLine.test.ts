import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Effect } from "effect"
import { isColoured, isForPeople } from "../../src/telemetry/LogConfig.js"
import type { LogLine } from "../../src/telemetry/LogLine.js"
import * as PrettyLine from "../../src/telemetry/PrettyLine.js"

// Without a zone, so the time is that of this machine's zone.
const time = "2026-01-31T09:00:00.042"
const line: LogLine = {
  time,
  level: "warn",
  msg: "a job failed",
  job: "0198",
  kind: "charge",
  process: "01a1",
  trace: "4bf9",
  span: "00f0",
  note: "two words",
  user: { id: 7 },
  error: "TypeError: no\n    at charge (app.ts:4:1)"
}

const escape = "\u001b["

describe("a log line for people", () => {
  it("has the time of day, the level, the message and the fields, and the error below", () => {
    expect(PrettyLine.of(line, false)).toBe(
      [
        '09:00:00.042 WARN  a job failed  job=0198 kind=charge note="two words" user={"id":7}',
        "    TypeError: no",
        "        at charge (app.ts:4:1)"
      ].join("\n")
    )
    expect(PrettyLine.of({ time, level: "info", msg: "stopped" }, false)).toBe("09:00:00.042 INFO  stopped")
  })

  it("has a coloured level and dim fields", () => {
    const [first] = PrettyLine.of({ time, level: "error", msg: "x", job: "0198" }, true).split("\n")
    expect(first).toBe(
      `${escape}2m09:00:00.042${escape}0m ${escape}31mERROR${escape}0m x  ${escape}2mjob=0198${escape}0m`
    )
  })

  it("cannot be forged by text of others, nor send escape sequences to the terminal", () => {
    const text = `x\n09:00:00.042 INFO  forged\r${escape}31m\u0085\u2028`
    const shown = PrettyLine.of({ ...line, msg: text, note: text, [text]: 1, error: text }, false)
    const [, ...below] = shown.split("\n")
    expect(below).not.toEqual([])
    for (const each of below) expect(each).toMatch(/^ {4}/)
    expect(shown.replaceAll("\n", "")).toMatch(/^[\u0020-\u007e]+$/)
  })
})

const terminal = { isTTY: true } as NodeJS.WriteStream
const pipe = { isTTY: false } as NodeJS.WriteStream

describe("the format of the log", () => {
  it.effect.each([
    ["auto", true, false],
    ["pretty", true, true],
    ["json", false, false]
  ] as const)("%s is for people on a terminal: %s, and elsewhere: %s", ([format, onTerminal, elsewhere]) =>
    Effect.gen(function* () {
      expect(yield* isForPeople(terminal)).toBe(onTerminal)
      expect(yield* isForPeople(pipe)).toBe(elsewhere)
    }).pipe(Effect.withConfigProvider(ConfigProvider.fromMap(new Map([["LOG_FORMAT", format]]))))
  )

  it.effect.each([
    [{}, true, false],
    [{ NO_COLOR: "1" }, false, false],
    [{ NO_COLOR: "" }, true, false],
    [{ FORCE_COLOR: "1" }, true, true],
    [{ FORCE_COLOR: "0" }, false, false],
    [{ FORCE_COLOR: "1", NO_COLOR: "1" }, true, true],
    [{ TERM: "dumb" }, false, false]
  ] as ReadonlyArray<readonly [Readonly<Record<string, string>>, boolean, boolean]>)(
    "has colours with %o on a terminal: %s, and elsewhere: %s",
    ([variables, onTerminal, elsewhere]) =>
      Effect.gen(function* () {
        expect(yield* isColoured(terminal)).toBe(onTerminal)
        expect(yield* isColoured(pipe)).toBe(elsewhere)
      }).pipe(Effect.withConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(variables)))))
  )
})
