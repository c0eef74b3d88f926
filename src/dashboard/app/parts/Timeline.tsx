import type { ComponentChildren } from "preact"
import { ErrorText } from "./ErrorText"
import { type Axis, positionOn } from "./Scale"
import { measured } from "./Time"

// Phases as bars on one time axis, to scale.

export interface Phase {
  readonly name: string
  /** CSS class that gives the colour. */
  readonly colour: string
  /** Epoch milliseconds. */
  readonly from: number
  readonly to: number
  readonly detail?: ComponentChildren
  readonly message?: string | null
}

const width = 1_000

/** One bar of the axis. `ticks` are marks, in milliseconds since its start. */
export const Bar = (props: {
  readonly of: Pick<Phase, "colour" | "from" | "name" | "to">
  readonly axis: Axis
  readonly ticks?: ReadonlyArray<number>
}) => {
  const { axis, of, ticks = [] } = props
  const label = `${of.name}: ${measured((of.to - of.from) / 1000)}`
  const place = positionOn(of, axis)
  const x = Math.min(width - 4, place.from * width)
  return (
    <svg
      class={`phase ${of.colour}`}
      role="img"
      aria-label={label}
      viewBox={`0 0 ${width} 10`}
      preserveAspectRatio="none"
    >
      <title>{label}</title>
      {ticks.map((tick) => {
        const at = (tick / (axis.ends - axis.start)) * width
        return <line key={tick} x1={at} x2={at} y1="0" y2="10" />
      })}
      {/* A short phase stays visible. */}
      <rect x={x} width={Math.max(4, place.length * width)} y="0" height="10" />
    </svg>
  )
}

/** A list of phases with their bars and durations. */
export const Timeline = (props: {
  readonly phases: ReadonlyArray<Phase>
  /** The ends of the axis, in epoch milliseconds. */
  readonly start: number
  readonly ends: number
}) => (
  <ol class="phases">
    {props.phases.map((phase) => (
      <li key={`${phase.from} ${phase.name}`}>
        <span class="what">
          <strong>{phase.name}</strong>{" "}
          {phase.detail === undefined ? null : <span class="quiet small">{phase.detail}</span>}
        </span>
        <Bar of={phase} axis={props} />
        <span class="took">{measured((phase.to - phase.from) / 1000)}</span>
        {phase.message === undefined || phase.message === null ? null : <ErrorText class="text" text={phase.message} />}
      </li>
    ))}
  </ol>
)
