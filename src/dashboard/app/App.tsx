import { useEffect, useState } from "preact/hooks"
import { ApiError, whenUnauthorized } from "./Api"
import { connect, disconnect } from "./Live"
import { Audit } from "./pages/Audit"
import { Bots } from "./pages/Bots"
import { Boundary } from "./pages/Boundary"
import { Database } from "./pages/Database"
import { EndpointPage, Endpoints } from "./pages/Endpoints"
import { Event as EventPage, Events } from "./pages/Events"
import { Execution } from "./pages/Execution"
import { Fleet } from "./pages/Fleet"
import { Job } from "./pages/Job"
import { Jobs } from "./pages/Jobs"
import { Kind } from "./pages/Kind"
import { Limits } from "./pages/Limits"
import { Login, LoginAgain } from "./pages/Login"
import { NotFound } from "./pages/NotFound"
import { Outage, outageOf } from "./pages/Outage"
import { Overview } from "./pages/Overview"
import { Pods } from "./pages/Pods"
import { QueuePage } from "./pages/QueuePage"
import { Queues } from "./pages/Queues"
import { Schedules } from "./pages/Schedules"
import { Uploads } from "./pages/Uploads"
import { Workflows } from "./pages/Workflows"
import { type Route, useRoute } from "./Route"
import { enter, type Session, SessionProvider } from "./Session"
import { Shell } from "./Shell"
import { useTimeStyle } from "./TimeStyle"

/** Milliseconds until the session is requested again while the service or its database is down. */
const retryAfter = 3_000

/** Reads the session and shows the login or the requested page. */
export const App = () => {
  const route = useRoute()
  // All times of the page change together.
  useTimeStyle()
  const [isExpired, setExpired] = useState(false)
  const [session, setSession] = useState<Session | "loading" | "anonymous" | ApiError>("loading")
  const load = () => void enter().then(setSession, (error: unknown) => setSession(outageOf(error) ?? "anonymous"))
  useEffect(() => {
    whenUnauthorized(() => setExpired(true))
    load()
  }, [])
  useEffect(() => {
    if (!(session instanceof ApiError)) return
    const timer = setTimeout(load, retryAfter)
    return () => clearTimeout(timer)
  }, [session])
  const isIn = typeof session === "object" && !(session instanceof ApiError) && !isExpired
  const onEnter = (entered: Session) => {
    setSession(entered)
    setExpired(false)
    dispatchEvent(new Event("login"))
  }
  useEffect(() => {
    if (isIn) connect()
    else disconnect()
  }, [isIn])
  if (session === "loading") return null
  if (session instanceof ApiError) return <Outage error={session} />
  if (session === "anonymous") return <Login onEnter={onEnter} />
  return (
    <SessionProvider value={session}>
      <div class={isExpired ? "locked" : undefined}>
        <Shell route={route} onLeave={() => setSession("anonymous")}>
          <Boundary key={route.path.join("/")}>
            <Page route={route} />
          </Boundary>
        </Shell>
      </div>
      {isExpired ? <LoginAgain onEnter={onEnter} /> : null}
    </SessionProvider>
  )
}

const Page = ({ route }: { readonly route: Route }) => {
  const [name = "overview", id] = route.path
  // Each job list has its own key, so that the rows of one list are never shown under the heading of another while
  // loading.
  switch (name) {
    case "overview":
      return <Overview />
    case "fleet":
      return <Fleet />
    case "queues":
      return id === undefined ? <Queues route={route} /> : <QueuePage key={id} name={id} />
    case "kinds":
      return id === undefined ? <NotFound /> : <Kind key={id} kind={id} />
    case "jobs":
      return id === undefined ? <Jobs key={name} route={route} title="Jobs" /> : <Job id={id} key={id} />
    case "scheduled":
      return <Jobs key={name} route={route} title="Scheduled" preset={{ state: ["scheduled"] }} />
    case "retries":
      return <Jobs key={name} route={route} title="Retries" preset={{ state: ["retrying"] }} />
    case "dead":
      return <Jobs key={name} route={route} title="Dead" preset={{ state: ["dead"] }} />
    case "workflows":
      return id === undefined ? <Workflows route={route} /> : <Execution key={id} id={id} />
    case "endpoints":
      return id === undefined ? <Endpoints route={route} /> : <EndpointPage key={id} id={id} route={route} />
    case "events":
      return id === undefined ? <Events route={route} /> : <EventPage key={id} id={id} />
    case "schedules":
      return <Schedules route={route} />
    case "pods":
      return <Pods key={id} id={id} />
    case "bots":
      return <Bots route={route} />
    case "uploads":
      return <Uploads route={route} />
    case "limits":
      return <Limits />
    case "audit":
      return <Audit route={route} />
    case "database":
      return <Database />
    default:
      return <NotFound />
  }
}
