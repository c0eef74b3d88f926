import { useMemo, useState } from "preact/hooks"
import { ExecutionLink } from "./ExecutionState"
import { Chunks } from "./parts/Chunks"
import { ErrorText } from "./parts/ErrorText"
import { Json } from "./parts/Json"
import { type Axis, ticksOf } from "./parts/Scale"
import { Age, instantText, measured, shortSpan, span, useTick } from "./parts/Time"
import { Bar } from "./parts/Timeline"
import { to } from "./Route"
import { useMayAct } from "./Session"
import type { Execution } from "./Views"
import { axisOf, barsOf, isFinished, type Bar as WaterfallBar } from "./Waterfall"
import { WaterfallOverview } from "./WaterfallOverview"
import { type Family, familyBar, isFailed, type Row as LookedRow, partAround, partsOf, rowsOf } from "./WaterfallRows"

/** Executions with more bars have an overview and controls to zoom. */
const controlsFrom = 20

const percent = (share: number) => `${share * 100}%`

/** The time of a tick. On a part of the axis, neighbours must not round to the same text. */
const tickText = (tick: number, ticks: ReadonlyArray<number>): string => {
  const distance = (ticks[1] ?? 0) - (ticks[0] ?? 0)
  if (tick === 0) return "0"
  if (ticks[0] === 0) return shortSpan(tick / 1000)
  return distance >= 1000 ? span(tick / 1000) : `${(tick / 1000).toFixed(distance >= 100 ? 1 : 3)} s`
}

/** The time axis above the bars. `ticks` are milliseconds since `origin`. */
const Scale = (props: { readonly axis: Axis; readonly origin: number; readonly ticks: ReadonlyArray<number> }) => (
  <div class="scale">
    <svg width="100%" height="16" aria-hidden="true">
      {props.ticks.map((tick) => {
        const share = (props.origin + tick - props.axis.start) / (props.axis.ends - props.axis.start)
        // A label at the very end would be clipped.
        return share > 0.94 ? null : (
          <text class="tick" key={tick} x={percent(share)} y="12">
            {tickText(tick, props.ticks)}
          </text>
        )
      })}
    </svg>
  </div>
)

const has = <K extends string>(value: unknown, key: K): value is Record<K, unknown> =>
  typeof value === "object" && value !== null && key in value

/** The result of a step: unwrapped if `nightshift/client` stored it, otherwise as is. */
const Result = ({ exit }: { readonly exit: unknown }) => {
  if (has(exit, "error") && has(exit.error, "message"))
    return (
      <ErrorText
        class="text"
        text={[
          `${has(exit.error, "name") ? `${exit.error.name}: ` : ""}${exit.error.message}`,
          ...(has(exit.error, "stack") ? [exit.error.stack] : [])
        ].join("\n")}
      />
    )
  if (has(exit, "timedOut")) return <p>Timed out: no signal arrived.</p>
  if (has(exit, "value")) return <Json label="result" value={exit.value} />
  return exit === null || JSON.stringify(exit) === "{}" ? (
    <p class="quiet">No result.</p>
  ) : (
    <Json label="result" value={exit} />
  )
}

const Details = ({ bar, onFork }: { readonly bar: WaterfallBar; readonly onFork: (step: string) => void }) => {
  const mayAct = useMayAct()
  const { child, heartbeat, step, wait } = bar
  return (
    <div class="details stack">
      <p class="small quiet">
        {instantText(new Date(bar.from))}
        {bar.open ? ", still open" : ` to ${instantText(new Date(bar.to))}`}
        {step === undefined || step.attempt === 1 ? "" : `, attempt ${step.attempt}`}
        {step?.retryAt === null || step?.retryAt === undefined ? null : (
          <>
            , next attempt <Age at={step.retryAt} />
          </>
        )}
      </p>
      {step === undefined ? null : <Result exit={step.exit} />}
      {wait === undefined || wait.completedAt === null || (wait.kind !== "signal" && wait.kind !== "value") ? null : (
        <Json label="value" value={wait.value} />
      )}
      {heartbeat === undefined ? null : <Json label="details" value={heartbeat.details} />}
      {child === undefined ? null : (
        <p>
          {child.execution === null ? (
            <a href={to(`jobs/${child.id}`)}>Job {child.id}</a>
          ) : (
            <ExecutionLink execution={child.execution} />
          )}
        </p>
      )}
      {child?.lastError === undefined || child.lastError === null ? null : (
        <ErrorText class="text" text={child.lastError} />
      )}
      {step === undefined || step.kind === "undo" || !mayAct ? null : (
        <div class="row">
          <button type="button" onClick={() => onFork(step.name)}>
            Fork from here
          </button>
        </div>
      )}
    </div>
  )
}

/** What happens at the due time of a bar. */
const dueWords: Readonly<Record<string, string>> = {
  "": "due",
  signal: "times out",
  heartbeat: "times out",
  limit: "asks again",
  message: "times out",
  changed: "checked again"
}

const Row = (props: {
  readonly axis: Axis
  readonly ticks: ReadonlyArray<number>
  readonly bar: WaterfallBar
  readonly onFork: (step: string) => void
}) => {
  const { axis, bar, onFork, ticks } = props
  const [open, setOpen] = useState(false)
  const isPlain = [bar.step, bar.wait, bar.child, bar.heartbeat].every((content) => content === undefined)
  const due = bar.heartbeat === undefined ? (bar.wait?.kind ?? "") : "heartbeat"
  return (
    <li class={bar.child === undefined ? undefined : "child"}>
      <span class="what">
        {isPlain ? (
          <strong>{bar.name}</strong>
        ) : (
          <button type="button" class="fold" aria-expanded={open} onClick={() => setOpen(!open)}>
            <strong>{bar.name}</strong>
          </button>
        )}{" "}
        <span class="quiet small">
          {[bar.kind, bar.detail].filter((word) => word !== undefined && word !== "").join(", ")}
          {bar.heartbeat === undefined ? null : (
            <>
              , last heartbeat <Age at={bar.heartbeat.at} />
            </>
          )}
          {bar.dueAt === null || bar.dueAt === undefined ? null : (
            <>
              , {dueWords[due] ?? "ends"} <Age at={bar.dueAt} />
            </>
          )}
        </span>
      </span>
      <Bar of={bar} axis={axis} ticks={ticks} />
      <span class="took">{measured((bar.to - bar.from) / 1000)}</span>
      {open ? <Details bar={bar} onFork={onFork} /> : null}
    </li>
  )
}

const FamilyRow = (props: {
  readonly axis: Axis
  readonly ticks: ReadonlyArray<number>
  readonly family: Family
  readonly onTurn: () => void
}) => {
  const { axis, family, onTurn, ticks } = props
  const bar = familyBar(family)
  return (
    <li class="child">
      <span class="what row">
        <button type="button" class="fold family" aria-expanded={family.isOpen} onClick={onTurn}>
          <strong>{family.bars.length.toLocaleString()} children</strong>
        </button>
        {partsOf(family.bars).map(({ colour, count, state }) => (
          <span key={state} class={isFailed({ colour }) ? `small state ${colour}` : "quiet small"}>
            {count.toLocaleString()} {state}
          </span>
        ))}
      </span>
      <Bar of={bar} axis={axis} ticks={ticks} />
      <span class="took">{measured((bar.to - bar.from) / 1000)}</span>
    </li>
  )
}

const toggled = (set: ReadonlySet<string>, item: string): ReadonlySet<string> => {
  const next = new Set(set)
  if (!next.delete(item)) next.add(item)
  return next
}

/** Buttons that show a part of the axis. */
const Zoom = (props: {
  readonly whole: Axis
  readonly part: Axis | undefined
  readonly onPart: (part: Axis | undefined) => void
}) => {
  const { onPart, part, whole } = props
  const { ends, start } = part ?? whole
  const [middle, length] = [(start + ends) / 2, ends - start]
  const button = (name: string, isOff: boolean, at: number, wide: number) => (
    <button type="button" disabled={isOff} onClick={() => onPart(partAround(whole, at, wide))}>
      {name}
    </button>
  )
  return (
    <>
      {button("Zoom in", length <= 2, middle, length / 2)}
      {button("Zoom out", part === undefined, middle, length * 2)}
      {button("Earlier", start <= whole.start, middle - length / 2, length)}
      {button("Later", ends >= whole.ends, middle + length / 2, length)}
      {button("Whole run", part === undefined, middle, Infinity)}
    </>
  )
}

/** Steps, sleeps, waits and children of an execution on one time axis. */
export const WaterfallChart = (props: { readonly execution: Execution; readonly onFork: (step: string) => void }) => {
  const { execution, onFork } = props
  const tick = useTick()
  const hasEnded =
    isFinished(execution) && execution.children.every(({ finishedAt, state }) => finishedAt !== null || state === null)
  const now = hasEnded ? Date.parse(execution.finishedAt ?? execution.updatedAt) : tick
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set())
  const [failedOnly, setFailedOnly] = useState(false)
  const [part, setPart] = useState<Axis>()
  const bars = useMemo(() => barsOf(execution, now), [execution, now])
  const whole = axisOf(execution, bars, now)
  const axis = part ?? whole
  const ticks = ticksOf(axis, whole.start)
  const rows = rowsOf(bars, { failedOnly, part, open })
  const failed = bars.filter(isFailed).length
  const lines = ticks.map((each) => whole.start + each - axis.start).filter((each) => each > 0)
  const row = (each: LookedRow) =>
    "bars" in each ? (
      <FamilyRow
        key={each.key}
        axis={axis}
        ticks={lines}
        family={each}
        onTurn={() => setOpen(toggled(open, each.step))}
      />
    ) : (
      <Row key={each.key} axis={axis} ticks={lines} bar={each} onFork={onFork} />
    )
  return (
    <>
      <p class="small quiet">
        Started <Age at={execution.createdAt} />; the axis covers {span((axis.ends - axis.start) / 1000)}
        {part === undefined
          ? isFinished(execution)
            ? "."
            : " and ends now."
          : ` from ${span((axis.start - whole.start) / 1000)} after the start.`}{" "}
        Select a name to see its result.
      </p>
      {bars.length <= controlsFrom ? null : (
        <>
          <WaterfallOverview bars={bars} whole={whole} part={part} onPart={setPart} />
          <div class="row tight zoom">
            <Zoom whole={whole} part={part} onPart={setPart} />
            <label class="check">
              <input
                type="checkbox"
                checked={failedOnly}
                onChange={({ currentTarget: { checked } }) => setFailedOnly(checked)}
              />
              Failed only ({failed.toLocaleString()})
            </label>
          </div>
        </>
      )}
      <Scale axis={axis} origin={whole.start} ticks={ticks} />
      <Chunks as="ol" class="phases waterfall" rowHeight={29} of={rows} row={row} />
      {bars.length === 0 ? (
        <p class="quiet">No steps recorded.</p>
      ) : rows.length === 0 ? (
        <p class="quiet">{failedOnly ? "Nothing failed in this part." : "Nothing happened in this part."}</p>
      ) : null}
    </>
  )
}
