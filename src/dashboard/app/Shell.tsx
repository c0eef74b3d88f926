import type { ComponentChildren } from "preact"
import { useEffect, useState } from "preact/hooks"
import { KeyHelp, useKeys } from "./Keys"
import { pause, type Trouble, troubleWords, useLiveUpdates } from "./Live"
import { Mark } from "./parts/Mark"
import { Age, span, useTick } from "./parts/Time"
import { Toasts } from "./parts/Toasts"
import { type Route, to } from "./Route"
import { logOut } from "./Session"
import * as Theme from "./Theme"
import { stateCount } from "./Views"

const places: ReadonlyArray<readonly [group: string, ReadonlyArray<readonly [path: string, name: string]>]> = [
  [
    "",
    [
      ["overview", "Overview"],
      ["queues", "Queues"],
      ["workflows", "Workflows"],
      ["schedules", "Schedules"],
      ["pods", "Processes"]
    ]
  ],
  [
    "Jobs",
    [
      ["jobs", "All jobs"],
      ["scheduled", "Scheduled"],
      ["retries", "Retries"],
      ["dead", "Dead"]
    ]
  ],
  [
    "Incoming",
    [
      ["bots", "Bots"],
      ["uploads", "Uploads"]
    ]
  ],
  [
    "System",
    [
      ["limits", "Limits"],
      ["audit", "Audit"],
      ["database", "Database"]
    ]
  ]
]

const nextTheme = { auto: "light", light: "dark", dark: "auto" } as const

const LiveButton = () => {
  const { link, trouble } = useLiveUpdates()
  const words = { live: "Live", paused: "Paused", connecting: "Connecting…" }
  const isLive = link === "live" && trouble === undefined
  return (
    <button
      type="button"
      class="live"
      aria-pressed={link === "paused"}
      onClick={() => pause(link !== "paused")}
      title="Pause live updates"
    >
      <span class={`state ${isLive ? "done" : link === "paused" ? "" : "retrying"}`}>
        {link === "live" && trouble !== undefined ? troubleWords[trouble] : words[link]}
      </span>
    </button>
  )
}

const ThemeButton = () => {
  const [theme, setTheme] = useState(Theme.chosen)
  const turn = () => {
    Theme.choose(nextTheme[theme])
    setTheme(nextTheme[theme])
  }
  return (
    <button type="button" onClick={turn} title="Light, dark or system theme">
      {{ auto: "Theme: auto", dark: "Theme: dark", light: "Theme: light" }[theme]}
    </button>
  )
}

const explained: Readonly<Record<Trouble, string>> = {
  disconnected: "The service does not respond. Reconnecting…",
  silent: "The service does not respond.",
  database: "The service is up, its database is not."
}

/** The banner of a page whose data is stale. */
const Outage = ({ trouble }: { readonly trouble: Trouble }) => {
  const { staleSince } = useLiveUpdates()
  const now = useTick()
  const heading = trouble === "silent" ? `No answer for ${span((now - staleSince) / 1000)}` : troubleWords[trouble]
  return (
    <div class="failure" role="alert">
      <strong>{heading}.</strong> {explained[trouble]} Everything below was loaded{" "}
      <Age at={new Date(staleSince).toISOString()} />, and actions are disabled.
    </div>
  )
}

/** Shows warnings in the tab's title. */
const useTitle = () => {
  const { queues = [], trouble, warnings = [] } = useLiveUpdates()
  const dead = stateCount(queues, "dead")
  const parts = [
    ...(trouble === undefined ? [] : [troubleWords[trouble].toLowerCase()]),
    ...(dead === "0" ? [] : [`${dead} dead`]),
    ...(warnings.length === 0 ? [] : [`${warnings.length} ${warnings.length === 1 ? "warning" : "warnings"}`])
  ]
  const title = [...(parts.length === 0 ? [] : [parts.join(", ")]), "Mission Control"].join(" · ")
  useEffect(() => {
    document.title = title
  }, [title])
}

/** Navigation and layout around every page. */
export const Shell = ({
  children,
  onLeave,
  route
}: {
  children: ComponentChildren
  onLeave: () => void
  route: Route
}) => {
  const [open, setOpen] = useState(false)
  const help = useKeys()
  const { trouble } = useLiveUpdates()
  useTitle()
  const here = route.path[0] ?? "overview"
  useEffect(() => setOpen(false), [route])
  return (
    <div class={`shell ${open ? "open" : ""} ${trouble === undefined ? "" : "offline"}`}>
      <nav class="rail" aria-label="Pages">
        <a class="brand" href={to("overview")}>
          <Mark />
          Mission Control
        </a>
        {places.map(([group, entries]) => (
          <>
            {group === "" ? null : <div class="group">{group}</div>}
            {entries.map(([path, name]) => (
              <a class="place" key={path} href={to(path)} aria-current={here === path ? "page" : undefined}>
                {name}
              </a>
            ))}
          </>
        ))}
        <a class="place" href="../docs">
          API docs
        </a>
        <div class="foot">
          <LiveButton />
          <ThemeButton />
          <button type="button" onClick={() => void logOut().finally(onLeave)}>
            Log out
          </button>
        </div>
      </nav>
      <main>
        <button type="button" class="menu-button" aria-expanded={open} onClick={() => setOpen(!open)}>
          ☰ Menu
        </button>
        {trouble === undefined ? null : <Outage trouble={trouble} />}
        {/* Disables every control of the page. */}
        <fieldset class="page" disabled={trouble !== undefined}>
          {children}
        </fieldset>
      </main>
      <Toasts />
      {help.shown ? <KeyHelp onClose={help.hide} /> : null}
    </div>
  )
}
