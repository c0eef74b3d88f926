import { createContext } from "preact"
import { useContext } from "preact/hooks"
import * as Api from "./Api"
import { halves, inCell, read, shownCell, to } from "./Route"

/** The logged-in role: admins can make changes, viewers can only read. */
export interface Session {
  readonly role: "admin" | "viewer"
  readonly until: string | null
  /** The name of the installation, if it has one. */
  readonly environment: string | null
  /** The fleet of the service, if it has one. */
  readonly fleet: Fleet | null
}

interface Fleet {
  /** The cell of the service. */
  readonly cell: string
  readonly cells: ReadonlyArray<string>
  /** Whether an admin may act on other cells. */
  readonly mayAct: boolean
}

const readSession = (): Promise<Session> => Api.get<Session>("session")

/** Reads the session after a login in another tab. */
export const enterAgain = async (): Promise<Session> => {
  const session = await readSession()
  Api.noteLogin()
  return session
}

export const logIn = async (token: string): Promise<Session> => {
  const session = await Api.post<Session>("session", { token })
  Api.noteLogin()
  return session
}

/** Takes the token from the login link that `serve` prints, and removes it from the URL and the history. */
const takeToken = (): string | undefined => {
  const token = new URLSearchParams(halves(location.hash)[1]).get("token")
  if (token === null) return undefined
  const { path, query } = read(location.hash)
  history.replaceState(history.state, "", to(path.map(encodeURIComponent).join("/"), Object.fromEntries(query)))
  return token
}

/** The login page of the app that has these pages, empty if it names none. Undefined in the service, which has its own. */
export const appLogin = document.getElementById("app")?.dataset.login

let linkToken: string | undefined

/** Milliseconds to wait for a session: a database that is frozen does not refuse the query. */
const timeout = 8_000

const noAnswer = () =>
  new Promise<never>((_, reject) =>
    setTimeout(
      () => reject(new Api.ApiError(0, "NoAnswer", "The service or its database does not respond.", undefined)),
      timeout
    )
  )

/** Logs in with the token of the login link, or reads the current session. Keeps the token for another try. */
export const enter = (): Promise<Session> => {
  linkToken = takeToken() ?? linkToken
  return Promise.race([linkToken === undefined ? readSession() : logIn(linkToken), noAnswer()])
}

export const logOut = (): Promise<unknown> => Api.remove("session")

const Context = createContext<Session>({ role: "viewer", until: null, environment: null, fleet: null })
export const SessionProvider = Context.Provider

/** Whether to show controls that make changes. The server checks the role on every request. */
export const useMayAct = (): boolean => {
  const { fleet, role } = useContext(Context)
  return role === "admin" && (fleet === null || (shownCell ?? fleet.cell) === fleet.cell || fleet.mayAct)
}

/** The name of the installation and the cell that is shown; null if it has neither. */
export const useEnvironment = (): string | null => {
  const { environment, fleet } = useContext(Context)
  const cell = fleet === null ? [] : [`cell ${shownCell ?? fleet.cell}`]
  return [environment ?? [], cell].flat().join(" · ") || null
}

/** The fleet of the service; null if it has none. */
export const useFleet = () => {
  const { fleet } = useContext(Context)
  return fleet === null ? null : { ...fleet, shown: shownCell ?? fleet.cell }
}

/** Returns the address of a page in a cell. */
export const useAt = () => {
  const { fleet } = useContext(Context)
  return (cell: string, address: string) => inCell(cell === fleet?.cell ? undefined : cell, address)
}
