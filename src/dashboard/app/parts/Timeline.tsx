import type { ComponentChildren } from "preact"
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
  /** Levels below the phase that it belongs to. */
  readonly depth?: number
}

const width = 1_000

const Bar = ({ ends, of, start }: { readonly of: Phase; readonly start: number; readonly ends: number }) => {
  const scale = width / Math.max(1, ends - start)
  const label = `${of.name}: ${measured((of.to - of.from) / 1000)}`
  const x = Math.min(width - 4, (of.from - start) * scale)
  return (
    <svg
      class={`phase ${of.colour}`}
      role="img"
      aria-label={label}
      viewBox={`0 0 ${width} 10`}
      preserveAspectRatio="none"
    >
      <title>{label}</title>
      {/* A short phase stays visible. */}
      <rect x={x} width={Math.max(4, Math.min(width - x, (of.to - of.from) * scale))} y="0" height="10" />
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
      <li key={`${phase.from} ${phase.name}`} class={`depth-${Math.min(4, phase.depth ?? 0)}`}>
        <span class="what">
          <strong>{phase.name}</strong>{" "}
          {phase.detail === undefined ? null : <span class="quiet small">{phase.detail}</span>}
        </span>
        <Bar of={phase} start={props.start} ends={props.ends} />
        <span class="took">{measured((phase.to - phase.from) / 1000)}</span>
        {phase.message === undefined || phase.message === null ? null : <pre class="text">{phase.message}</pre>}
      </li>
    ))}
  </ol>
)
