import { useState } from "preact/hooks"
import { ExecutionLink } from "./ExecutionState"
import { Json } from "./parts/Json"
import { type Axis, ticksOf } from "./parts/Scale"
import { Age, instantText, measured, shortSpan, span, useTick } from "./parts/Time"
import { Bar } from "./parts/Timeline"
import { to } from "./Route"
import { useMayAct } from "./Session"
import type { Execution } from "./Views"
import { axisOf, barsOf, isFinished, type Bar as WaterfallBar } from "./Waterfall"

/** Bars shown at first: an execution may have thousands of children. */
const page = 200

const percent = (share: number) => `${share * 100}%`

/** The time axis above the bars. */
const Scale = ({ axis, ticks }: { readonly axis: Axis; readonly ticks: ReadonlyArray<number> }) => (
  <div class="scale">
    <svg width="100%" height="16" aria-hidden="true">
      {ticks.map((tick) => {
        const share = tick / (axis.ends - axis.start)
        // A label at the very end would be clipped.
        return share > 0.94 ? null : (
          <text class="tick" key={tick} x={percent(share)} y="12">
            {tick === 0 ? "0" : shortSpan(tick / 1000)}
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
      <pre class="text">
        {has(exit.error, "name") ? `${exit.error.name}: ` : ""}
        {`${exit.error.message}`}
        {has(exit.error, "stack") ? `\n${exit.error.stack}` : ""}
      </pre>
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
      {child?.lastError === undefined || child.lastError === null ? null : <pre class="text">{child.lastError}</pre>}
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

/** Steps, sleeps, waits and children of an execution on one time axis. */
export const WaterfallChart = (props: { readonly execution: Execution; readonly onFork: (step: string) => void }) => {
  const { execution, onFork } = props
  const now = useTick()
  const [shown, setShown] = useState(page)
  const bars = barsOf(execution, now)
  const axis = axisOf(execution, bars, now)
  const ticks = ticksOf(axis)
  return (
    <>
      <p class="small quiet">
        Started <Age at={execution.createdAt} />; the axis covers {span((axis.ends - axis.start) / 1000)}
        {isFinished(execution) ? "." : " and ends now."} Select a name to see its result.
      </p>
      <Scale axis={axis} ticks={ticks} />
      <ol class="phases waterfall">
        {bars.slice(0, shown).map((bar) => (
          <Row key={bar.key} axis={axis} ticks={ticks.slice(1)} bar={bar} onFork={onFork} />
        ))}
      </ol>
      {bars.length <= shown ? null : (
        <div class="row">
          <button type="button" onClick={() => setShown(shown + 5 * page)}>
            Show {Math.min(5 * page, bars.length - shown)} more
          </button>
        </div>
      )}
      {bars.length === 0 ? <p class="quiet">No steps recorded.</p> : null}
    </>
  )
}
