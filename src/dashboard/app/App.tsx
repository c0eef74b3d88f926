import { useEffect, useState } from "preact/hooks"
import { whenStranger } from "./Api"
import { connect, disconnect } from "./Live"
import { Login } from "./pages/Login"
import { NotFound } from "./pages/NotFound"
import { useRoute } from "./Route"
import { readSession, type Session, SessionProvider } from "./Session"
import { Shell } from "./Shell"

/** Asks who is there, and shows them the page they came for. */
export const App = () => {
  const route = useRoute()
  const [session, setSession] = useState<Session | "asking" | "stranger">("asking")
  useEffect(() => {
    whenStranger(() => setSession("stranger"))
    readSession().then(setSession, () => setSession("stranger"))
  }, [])
  useEffect(() => {
    if (typeof session === "object") connect()
    else disconnect()
  }, [typeof session === "object"])
  if (session === "asking") return null
  if (session === "stranger") return <Login onEnter={setSession} />
  return (
    <SessionProvider value={session}>
      <Shell route={route} onLeave={() => setSession("stranger")}>
        <Page name={route.path[0] ?? "overview"} />
      </Shell>
    </SessionProvider>
  )
}

const Page = ({ name }: { readonly name: string }) => {
  switch (name) {
    default:
      return <NotFound />
  }
}
