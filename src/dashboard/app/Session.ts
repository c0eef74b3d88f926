import { createContext } from "preact"
import { useContext } from "preact/hooks"
import * as Api from "./Api"
import { read, to } from "./Route"

/** Who looks: an admin may act, a viewer may only look. */
export interface Session {
  readonly role: "admin" | "viewer"
  readonly until: string | null
}

export const readSession = (): Promise<Session> => Api.get<Session>("session")
export const logIn = (token: string): Promise<Session> => Api.post<Session>("session", { token })

/** The token of a link that a start of the service printed. It does not stay in the address, nor in the history. */
const takeToken = (): string | undefined => {
  const { path, query } = read(location.hash)
  const token = query.get("token")
  if (token === null) return undefined
  query.delete("token")
  history.replaceState(null, "", to(path.map(encodeURIComponent).join("/"), Object.fromEntries(query)))
  return token
}

/** Who is there, or comes in by such a link. */
export const enter = (): Promise<Session> => {
  const token = takeToken()
  return token === undefined ? readSession() : logIn(token)
}

export const logOut = (): Promise<unknown> => Api.remove("session")

const Context = createContext<Session>({ role: "viewer", until: null })
export const SessionProvider = Context.Provider

/** Whether to show what changes something. The server asks again at every act. */
export const useMayAct = (): boolean => useContext(Context).role === "admin"
