import { Fragment } from "preact"
import { useEffect, useId, useRef, useState } from "preact/hooks"
import * as Api from "./Api"
import { pageCommands } from "./Commands"
import { executionAddress } from "./ExecutionState"
import { useKeyMatches } from "./KeyMatches"
import { queueAddress } from "./Links"
import { pause, useLiveUpdates } from "./Live"
import { type Item, pick } from "./PaletteItems"
import { turnQueue } from "./PauseButton"
import { places } from "./Places"
import { podName } from "./PodNames"
import { Dialog } from "./parts/Dialog"
import { reloadAll, useResource } from "./Resource"
import { go, type Route, to } from "./Route"
import { queryOf } from "./Search"
import { appLogin, useAt, useFleet, useMayAct } from "./Session"
import * as Theme from "./Theme"
import { chooseTimeStyle, timeStyleNames, timeStyles } from "./TimeStyle"
import type { ExecutionSummary, Kinds, Queue } from "./Views"

// One box that opens any page, queue, kind, process, execution and job, and runs the actions that the role allows.

/** Milliseconds without a key until the service is asked. */
const typingPause = 150

/** Shorter texts would match too many ids. */
const minLength = 2

const useSettled = (text: string): string => {
  const [settled, setSettled] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), typingPause)
    return () => clearTimeout(timer)
  }, [text])
  return settled
}

interface Given {
  readonly route: Route
  readonly onClose: () => void
  readonly onEnqueue: () => void
  readonly onHelp: () => void
  readonly onLeave: () => void
}

const link = (group: string, name: string, address: string, note?: string): Item => ({
  group,
  name,
  run: () => go(address),
  ...(note === undefined ? {} : { note })
})

const pages = places.flatMap(([, entries]) => entries.map(([path, name]) => link("Pages", name, to(path))))

/** Jobs whose id, dedupe key or key matches, and executions whose id begins with the text. The service finds both. */
const useFound = (text: string): ReadonlyArray<Item> => {
  const settled = useSettled(text)
  const asked = settled.length < minLength ? undefined : settled
  const jobs = useKeyMatches(asked)
  const path = asked === undefined ? undefined : `workflows${Api.query({ prefix: asked, limit: 5 })}`
  const executions = useResource<{ executions: ReadonlyArray<ExecutionSummary> }>(path)
  // What was found for another text does not belong here.
  if (asked !== text) return []
  return [
    ...(path !== undefined && executions.path === path ? (executions.data?.executions ?? []) : []).map(
      ({ execution, state, workflow }) =>
        link("Executions", execution, executionAddress(execution), `${workflow}, ${state}`)
    ),
    ...jobs.map(({ id, kind, state }) => link("Jobs", id, to(`jobs/${id}`), `${kind}, ${state}`))
  ]
}

/** The search of the job lists, with the same text. Not offered for invalid JSON. */
const searchOf = (text: string): ReadonlyArray<Item> => {
  try {
    return text === "" ? [] : [link("Search", `Search all jobs for ${text}`, to("jobs", queryOf(text)))]
  } catch {
    return []
  }
}

const useItems = (text: string, { onEnqueue, onHelp, onLeave, route }: Given) => {
  const { link: stream, pods = [], trouble } = useLiveUpdates()
  const mayAct = useMayAct() && trouble === undefined
  const queues = useResource<{ queues: ReadonlyArray<Queue> }>("queues").data?.queues ?? []
  const kinds = useResource<Kinds>("kinds").data?.kinds ?? []
  const fleet = useFleet()
  const at = useAt()
  const cells =
    fleet === null
      ? []
      : [
          link("Pages", "Fleet", at(fleet.cell, to("fleet"))),
          ...fleet.cells.map((name) => link("Cells", name, at(name, to("overview"))))
        ]
  const act = (name: string, run: () => void): Item => ({ group: "Actions", name, run })
  const [page, id] = route.path
  const here = trouble === undefined ? pageCommands().map((command) => ({ group: "This page", ...command })) : []
  const acts = [
    ...(mayAct
      ? [
          act("Enqueue a job", onEnqueue),
          ...queues
            .filter(({ name }) => text !== "" || (page === "queues" && id === name))
            .map((queue) =>
              act(`${queue.paused ? "Resume" : "Pause"} queue ${queue.name}`, () => void turnQueue(queue, reloadAll))
            )
        ]
      : []),
    ...timeStyles.map((style) => act(timeStyleNames[style], () => chooseTimeStyle(style))),
    ...(["auto", "light", "dark"] as const).map((theme) => act(`Theme: ${theme}`, () => Theme.choose(theme))),
    stream === "paused" ? act("Resume live updates", () => pause(false)) : act("Pause live updates", () => pause(true)),
    act("Keyboard shortcuts", onHelp),
    ...(appLogin === undefined ? [act("Log out", onLeave)] : [])
  ]
  const named = [
    ...pages,
    ...cells,
    ...queues.map(({ name }) => link("Queues", name, queueAddress(name))),
    ...kinds.map(({ name, queue }) => link("Kinds", name, to(`kinds/${encodeURIComponent(name)}`), `queue ${queue}`)),
    ...pods.map(({ host, id }) => link("Processes", podName(id), to(`pods/${id}`), `${host.name} ${id}`))
  ]
  return pick(text, [...here, ...(text === "" ? pages : named), ...acts], useFound(text), searchOf(text))
}

/** The command palette. */
export const Palette = (given: Given) => {
  const [typed, setTyped] = useState("")
  const [place, setPlace] = useState(0)
  const id = useId()
  const list = useRef<HTMLDivElement>(null)
  const text = typed.trim()
  const items = useItems(text, given)
  const at = Math.min(place, items.length - 1)
  useEffect(() => setPlace(0), [text])
  useEffect(
    () => list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }),
    [at, items]
  )
  const choose = (item: Item | undefined) => {
    if (item === undefined) return
    given.onClose()
    item.run()
  }
  const move = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1, Enter: 0 }[event.key]
    if (by === undefined || items.length === 0) return
    event.preventDefault()
    if (by === 0) choose(items[at])
    else setPlace((at + by + items.length) % items.length)
  }
  return (
    <Dialog title="Command palette" bare="palette" onClose={given.onClose}>
      <input
        role="combobox"
        aria-label="Find a page, queue, kind, process, execution, job or action"
        aria-expanded={items.length > 0}
        aria-controls={`${id}-items`}
        aria-activedescendant={items.length === 0 ? undefined : `${id}-${at}`}
        aria-autocomplete="list"
        autocomplete="off"
        spellcheck={false}
        placeholder="Find a page, queue, kind, process, execution, job by id or key, or action"
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onKeyDown={move}
      />
      {items.length === 0 ? (
        <p class="none">
          No results. To find a job, type the beginning of its id, its whole dedupe key or its whole key.
        </p>
      ) : (
        <div class="items" role="listbox" id={`${id}-items`} aria-label="Results" ref={list}>
          {items.map((item, index) => (
            <Fragment key={`${item.group} ${item.name} ${item.note}`}>
              {items[index - 1]?.group === item.group ? null : (
                <div class="heading" role="presentation">
                  {item.group}
                </div>
              )}
              <div
                role="option"
                tabIndex={-1}
                id={`${id}-${index}`}
                aria-selected={index === at}
                onClick={() => choose(item)}
                onKeyDown={move}
                onMouseMove={() => setPlace(index)}
              >
                <span class="cut">{item.name}</span>
                {item.note === undefined ? null : <span class="quiet small cut">{item.note}</span>}
              </div>
            </Fragment>
          ))}
        </div>
      )}
    </Dialog>
  )
}
