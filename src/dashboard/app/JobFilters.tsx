import { useState } from "preact/hooks"
import * as JobFilter from "./JobFilter"
import { useLiveUpdates } from "./Live"
import { AddInput } from "./parts/AddInput"
import { Fold } from "./parts/Card"
import { DraftInput } from "./parts/DraftInput"
import { InstantInput } from "./parts/InstantInput"
import { StateBadge } from "./parts/StateBadge"
import { span } from "./parts/Time"
import { type Query, type Route, refine } from "./Route"
import { Search } from "./Search"
import { deadReasons, type State, states } from "./Views"

interface Given {
  readonly filter: JobFilter.JobFilter
  readonly preset: JobFilter.JobFilter
  readonly change: (query: Query) => void
}

/** Toggle buttons for any number of values. */
const Choices = <A extends string>(props: {
  readonly label: string
  readonly all: ReadonlyArray<A>
  readonly chosen: ReadonlyArray<string>
  readonly onChange: (chosen: ReadonlyArray<string>) => void
  readonly show: (word: A) => preact.ComponentChildren
}) => (
  <fieldset class="row tight" aria-label={props.label}>
    {props.all.map((word) => {
      const isChosen = props.chosen.includes(word)
      const next = isChosen ? props.chosen.filter((other) => other !== word) : [...props.chosen, word]
      return (
        <button type="button" key={word} aria-pressed={isChosen} onClick={() => props.onChange(next)}>
          {props.show(word)}
        </button>
      )
    })}
  </fieldset>
)

const spans = ["15m", "1h", "24h", "7d", "30d"]

const Within = ({ change, filter: { within } }: Given) => {
  const chosen = within?.[0] ?? ""
  const offered = [...new Set([...spans, ...(chosen === "" ? [] : [chosen])])]
  return (
    <label class="field">
      Enqueued
      <select
        value={chosen}
        onChange={(event) => change({ within: event.currentTarget.value, since: undefined, until: undefined })}
      >
        <option value="">Any time</option>
        {offered.map((each) => (
          <option key={each} value={each}>
            Last {span(JobFilter.lengthOf(each))}
          </option>
        ))}
      </select>
    </label>
  )
}

/** Less common filters. */
const More = (given: Given) => {
  const { change, filter, preset } = given
  const instant = (field: "since" | "until", label: string) => (
    <InstantInput
      label={label}
      value={filter[field]?.[0] ?? ""}
      onGive={(at) => change({ [field]: at, within: undefined })}
    />
  )
  const text = (field: "text" | "dedupe", name: string, label: string) => (
    <div class="field">
      {name}
      <DraftInput
        type="search"
        label={label}
        value={filter[field]?.[0] ?? ""}
        onGive={(given) => change({ [field]: given })}
      />
    </div>
  )
  return (
    <div class="row more-filters">
      <Within {...given} />
      {instant("since", "From")}
      {instant("until", "Before")}
      {text("text", "Error", "Error contains")}
      {text("dedupe", "Dedupe key", "Exact dedupe key")}
      {preset.state === undefined || preset.state.includes("dead") ? (
        <div class="field">
          Dead reason
          <Choices
            label="Dead reason"
            all={deadReasons.filter((reason) => reason !== "cancelled")}
            chosen={filter.reason ?? []}
            onChange={(reason) => change({ reason })}
            show={(reason) => reason.replace("_", " ")}
          />
        </div>
      ) : null}
    </div>
  )
}

/** The active filters, each with a button to remove it. */
const Chips = ({ change, filter, preset }: Given) => {
  const asked = JobFilter.without(filter, preset)
  if (JobFilter.isEmpty(asked)) return null
  const remove = (field: JobFilter.Field, value: string) =>
    change({ [field]: (filter[field] ?? []).filter((other) => other !== value) })
  return (
    <fieldset class="row tight" aria-label="Active filters">
      {JobFilter.parts(asked).map(([field, value]) => (
        <button
          type="button"
          class="chip"
          key={`${field} ${value}`}
          title="Remove this filter"
          onClick={() => remove(field, value)}
        >
          <span class="visually-hidden">Remove </span>
          <span class="cut">{JobFilter.words(field, value)}</span>
          <span aria-hidden="true">×</span>
        </button>
      ))}
      <button
        type="button"
        class="link small"
        onClick={() => change(Object.fromEntries(Object.keys(asked).map((field) => [field, undefined])))}
      >
        Clear all
      </button>
    </fieldset>
  )
}

/** The filter controls of a job list. */
export const JobFilters = (props: {
  readonly filter: JobFilter.JobFilter
  readonly preset: JobFilter.JobFilter
  readonly route: Route
  /** Suggested kinds. */
  readonly kinds: ReadonlyArray<string>
}) => {
  const { filter, kinds, preset, route } = props
  const { queues = [] } = useLiveUpdates()
  const [open, setOpen] = useState(false)
  const change = (query: Query) => refine(route, { ...query, cursor: undefined })
  const given: Given = { filter, preset, change }
  const add = (field: "queue" | "kind", label: string, suggestions: ReadonlyArray<string>) => (
    <AddInput
      id={`known-${field}`}
      label={label}
      suggestions={suggestions}
      onGive={(text) => change({ [field]: [...(filter[field] ?? []), text] })}
    />
  )
  return (
    <search class="stack tight">
      <div class="row">
        <Search value={filter.search?.[0] ?? ""} change={change} />
        {add(
          "queue",
          "Queue",
          queues.map(({ name }) => name)
        )}
        {add("kind", "Kind", kinds)}
        <DraftInput
          type="search"
          label={'Payload contains {"a":1}'}
          width="wide"
          value={filter.payload?.[0] ?? ""}
          onGive={(payload) => change({ payload })}
        />
        <Fold open={open} turn={setOpen}>
          More filters
        </Fold>
      </div>
      {preset.state === undefined ? (
        <Choices<State>
          label="State"
          all={states}
          chosen={filter.state ?? []}
          onChange={(state) => change({ state })}
          show={(state) => <StateBadge state={state} />}
        />
      ) : null}
      {open ? <More {...given} /> : null}
      <Chips {...given} />
    </search>
  )
}
