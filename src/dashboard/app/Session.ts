import { createContext } from "preact"
import { useContext } from "preact/hooks"
import * as Api from "./Api"

/** Who looks: an admin may act, a viewer may only look. */
export interface Session {
  readonly role: "admin" | "viewer"
  readonly until: string | null
}

export const readSession = (): Promise<Session> => Api.get<Session>("session")
export const logIn = (token: string): Promise<Session> => Api.post<Session>("session", { token })
export const logOut = (): Promise<unknown> => Api.remove("session")

const Context = createContext<Session>({ role: "viewer", until: null })
export const SessionProvider = Context.Provider

/** Whether to show what changes something. The server asks again at every act. */
export const useMayAct = (): boolean => useContext(Context).role === "admin"
