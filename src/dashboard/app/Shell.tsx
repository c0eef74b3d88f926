import type { ComponentChildren } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import { ActionsButton, ActionsDrawer } from "./Actions"
import { EnqueueForm } from "./EnqueueForm"
import { EnvironmentStrip } from "./Environment"
import { KeyHelp, paletteKey, useKeys } from "./Keys"
import { pause, type Trouble, troubleWords, useLiveUpdates } from "./Live"
import { Palette } from "./Palette"
import { places } from "./Places"
import { Mark } from "./parts/Mark"
import { Age, span, useTick } from "./parts/Time"
import { showError, Toasts } from "./parts/Toasts"
import { go, type Route, shownCell, to } from "./Route"
import { appLogin, logOut, useAt, useEnvironment, useFleet } from "./Session"
import * as Theme from "./Theme"
import { chooseTimeStyle, timeStyleNames, timeStyles, useTimeStyle } from "./TimeStyle"
import { stateCount } from "./Views"

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

const TimeButton = () => {
  const style = useTimeStyle()
  const next = timeStyles[(timeStyles.indexOf(style) + 1) % timeStyles.length] ?? "relative"
  return (
    <button type="button" onClick={() => chooseTimeStyle(next)} title="Times relative to now, in local time or in UTC">
      {timeStyleNames[style]}
    </button>
  )
}

const service = shownCell === undefined ? "The service" : `The service of cell ${shownCell}`

const explained: Readonly<Record<Trouble, string>> = {
  disconnected: `${service} does not respond. Reconnecting…`,
  silent: `${service} does not respond.`,
  database: `${service} is up, its database is not.`
}

/** Opens the same page of another cell, and the overview of all. */
const Cells = ({ here }: { readonly here: string }) => {
  const fleet = useFleet()
  const at = useAt()
  if (fleet === null) return null
  return (
    <>
      <select
        class="cells"
        aria-label="Cell"
        value={fleet.shown}
        onChange={(event) => go(at(event.currentTarget.value, to(here === "fleet" ? "overview" : here)))}
      >
        {fleet.cells.map((name) => (
          <option key={name} value={name}>
            Cell {name}
          </option>
        ))}
      </select>
      <a class="place" href={at(fleet.cell, to("fleet"))} aria-current={here === "fleet" ? "page" : undefined}>
        Fleet
      </a>
    </>
  )
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

/** Shows the environment and warnings in the tab's title. */
const useTitle = () => {
  const environment = useEnvironment()
  const { queues = [], trouble, warnings = [] } = useLiveUpdates()
  const dead = stateCount(queues, "dead")
  const parts = [
    ...(trouble === undefined ? [] : [troubleWords[trouble].toLowerCase()]),
    ...(dead === "0" ? [] : [`${dead} dead`]),
    ...(warnings.length === 0 ? [] : [`${warnings.length} ${warnings.length === 1 ? "warning" : "warnings"}`])
  ]
  const title = [environment, parts.join(", "), "Mission Control"].filter((part) => part).join(" · ")
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
  const [isEnqueuing, setEnqueuing] = useState(false)
  const overlay = useKeys()
  const content = useRef<HTMLElement>(null)
  const environment = useEnvironment()
  const { trouble } = useLiveUpdates()
  useTitle()
  const here = route.path[0] ?? "overview"
  useEffect(() => setOpen(false), [route])
  // If it fails, the session goes on: the login form would say otherwise.
  const leave = () => void logOut().then(onLeave, showError)
  return (
    <div
      class={`shell ${open ? "open" : ""} ${trouble === undefined ? "" : "offline"} ${environment === null ? "" : "named"}`}
    >
      {/* Not a link: its fragment would be an address of a page. */}
      <button type="button" class="skip" onClick={() => content.current?.focus()}>
        Skip to content
      </button>
      <EnvironmentStrip />
      <nav class="rail" aria-label="Pages">
        <a class="brand" href={to("overview")}>
          <Mark />
          Mission Control
        </a>
        <button type="button" class="find" onClick={() => overlay.show("palette")}>
          Find <kbd>{paletteKey}</kbd>
        </button>
        <Cells here={here} />
        <div class="places">
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
        </div>
        <div class="foot">
          <ActionsButton />
          <LiveButton />
          <TimeButton />
          <ThemeButton />
          {appLogin === undefined ? (
            <button type="button" onClick={leave}>
              Log out
            </button>
          ) : null}
        </div>
      </nav>
      <main ref={content} tabIndex={-1}>
        <button type="button" class="menu-button" aria-expanded={open} onClick={() => setOpen(!open)}>
          ☰ Menu
        </button>
        {trouble === undefined ? null : <Outage trouble={trouble} />}
        {/* Disables every control of the page. */}
        <fieldset class="page" disabled={trouble !== undefined}>
          {children}
        </fieldset>
      </main>
      <ActionsDrawer />
      <Toasts />
      {overlay.shown === "help" ? <KeyHelp onClose={overlay.hide} /> : null}
      {overlay.shown === "palette" ? (
        <Palette
          route={route}
          onClose={overlay.hide}
          onEnqueue={() => setEnqueuing(true)}
          onHelp={() => overlay.show("help")}
          onLeave={leave}
        />
      ) : null}
      {isEnqueuing ? <EnqueueForm onClose={() => setEnqueuing(false)} /> : null}
    </div>
  )
}
