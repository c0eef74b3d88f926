import { useMemo, useState } from "preact/hooks"
import * as Api from "./Api"
import { Card, Fold } from "./parts/Card"
import type { Range } from "./parts/Range"
import { clockText, Moment } from "./parts/Time"
import { slowPoll, useResource } from "./Resource"
import type { Changes } from "./Views"

/** What changed in the range of the charts. Its start stays while the charts advance, so that it is not loaded with them. */
export const useChanges = (range: Range, of: { readonly queue?: string; readonly kind?: string } = {}) => {
  const isZoomed = range.name === "zoomed"
  const since = useMemo(() => range.query.since, [isZoomed ? range.query.since : range.name])
  const until = isZoomed ? range.query.until : undefined
  const path = `changes${Api.query({ since, until, ...of })}`
  return useResource<Changes>(path, { every: slowPoll, announced: true }).data
}

/** The rise that is closest to a time of the charts, in epoch seconds, if it is near. */
export const riseNear = (changes: Changes | undefined, at: number, within: number): string | undefined => {
  const distance = (rise: { readonly at: string }) => Math.abs(Date.parse(rise.at) / 1000 - at)
  const [nearest] = (changes?.rises ?? []).toSorted((a, b) => distance(a) - distance(b))
  return nearest === undefined || distance(nearest) > within ? undefined : nearest.at
}

const clockOf = (at: string) => clockText(Date.parse(at) / 1000, true)

/** Rises of failures with what preceded each, and everything that changed. */
export const WhatChanged = (props: {
  readonly changes: Changes
  readonly chosen: string | undefined
  readonly onChoose: (rise: string | undefined) => void
}) => {
  const { changes, rises } = props.changes
  const [open, setOpen] = useState(false)
  if (changes.length + rises.length === 0) return null
  return (
    <Card
      name="What changed"
      chips={<span class="quiet small">{changes.length} in this range, shown as dashed lines in the charts</span>}
      acts={
        changes.length === 0 ? null : (
          <Fold open={open} turn={setOpen}>
            Show all changes
          </Fold>
        )
      }
    >
      {rises.length === 0 ? <p class="quiet small">Failures did not rise in this range.</p> : null}
      {rises.map(({ at, preceded, text }) => (
        <div key={at}>
          <button
            type="button"
            class="link"
            aria-expanded={props.chosen === at}
            onClick={() => props.onChoose(props.chosen === at ? undefined : at)}
          >
            {clockOf(at)}: {text}
          </button>
          {props.chosen !== at ? null : preceded.length === 0 ? (
            <p class="quiet small">No changes were recorded in the 30 minutes before this rise.</p>
          ) : (
            <ul class="small">
              {preceded.map((line) => (
                <li key={line}>{line}</li>
              ))}
            </ul>
          )}
        </div>
      ))}
      {open ? (
        <ul class="small">
          {changes.toReversed().map(({ at, text, who }) => (
            <li key={`${at} ${text}`}>
              {text}
              {who === null ? "" : ` (${who})`}, <Moment at={at} />
            </li>
          ))}
        </ul>
      ) : null}
    </Card>
  )
}
