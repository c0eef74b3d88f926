import { useRef, useState } from "preact/hooks"
import { address } from "./Api"
import { commands, enqueueTexts, workerTexts } from "./FirstCommands"
import { useLiveUpdates } from "./Live"
import { exampleOf } from "./PayloadSchema"
import { Card } from "./parts/Card"
import { Snippet } from "./parts/Snippet"
import { useResource } from "./Resource"
import { to } from "./Route"
import { appLogin, useMayAct } from "./Session"
import { type Kind, type Kinds, type Queue, states } from "./Views"

// What to do next in an empty installation. Steps that have happened are ticked off.

/** An installation with this many jobs needs no introduction. */
const fewJobs = 20

const hidden = "nightshift.first-steps"

/** Kinds that every service runs. */
const builtIn = ["noop_echo", "cmd_exec"]

/** Inside another app, no token opens the API. */
const waysOf = ({ curl, ...others }: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  curl === undefined || appLogin !== undefined ? others : { curl, ...others }

const countOf = (queues: ReadonlyArray<Queue>, among: ReadonlyArray<(typeof states)[number]> = states) =>
  queues.reduce((sum, { counts }) => sum + among.reduce((all, state) => all + counts[state].value, 0), 0)

const Step = (props: {
  readonly done: boolean
  readonly name: string
  readonly children?: preact.ComponentChildren
}) => (
  <li class={props.done ? "ticked" : ""}>
    <strong>{props.name}</strong>
    {props.done ? <span class="visually-hidden">, done</span> : props.children}
  </li>
)

/** One of several ways, with its commands. */
const Ways = (props: { readonly label: string; readonly of: Readonly<Record<string, string>> }) => {
  const names = Object.keys(props.of)
  const [chosen, setChosen] = useState(names[0] ?? "")
  return (
    <>
      <fieldset class="row tight" aria-label={props.label}>
        {names.map((name) => (
          <button type="button" key={name} aria-pressed={name === chosen} onClick={() => setChosen(name)}>
            {name}
          </button>
        ))}
      </fieldset>
      <Snippet label={chosen} text={props.of[chosen] ?? ""} />
    </>
  )
}

/** The kind and payload of the commands: a kind of the user's app once it is loaded, otherwise one that every service runs. */
const useExample = (own: string | undefined, isRegistered: boolean) => {
  const found = useResource<Kind>(own === undefined ? undefined : `kinds/${encodeURIComponent(own)}`)
  if (own === undefined || found.data === undefined)
    return { kind: "noop_echo", payload: { message: "hello" }, force: !isRegistered }
  return { kind: own, payload: found.data.schema ? exampleOf(found.data.schema) : {}, force: false }
}

interface Progress {
  readonly worker: boolean
  readonly enqueued: boolean
  readonly done: boolean
}

const isOver = (steps: Progress) => steps.worker && steps.enqueued && steps.done

const Steps = (props: {
  readonly steps: Progress
  /** A kind of the user's app. */
  readonly own: string | undefined
  readonly onHide: () => void
}) => {
  const { own, steps } = props
  const mayAct = useMayAct()
  const kinds = useResource<Kinds>("kinds", { every: 5_000 }).data?.kinds
  const example = useExample(own, kinds === undefined || kinds.some(({ name }) => name === "noop_echo"))
  return (
    <Card
      name="Get started"
      title={isOver(steps) ? "All set" : "Get started"}
      acts={
        <button type="button" onClick={props.onHide}>
          Hide
        </button>
      }
    >
      <ol class="first-steps">
        <Step done name="Start the service" />
        <Step done={steps.worker} name="Start a worker with your handlers">
          <p class="quiet small">
            Write handlers in a file such as <code>jobs.ts</code>, then run them in this service or in your own program.
            Both need the <code>DATABASE_URL</code> of this service; with an embedded database, restart the service with{" "}
            <code>--app</code>. Beside your own program, run this service with <code>--queues none</code>, so that it
            does not claim jobs without a handler.
          </p>
          <Ways label="Ways to start a worker" of={workerTexts} />
        </Step>
        <Step done={steps.enqueued} name="Enqueue a job">
          <p class="quiet small" hidden={appLogin !== undefined}>
            {mayAct ? "" : "You are logged in as a viewer; enqueueing needs the admin token. "}
            <code>TOKEN</code> is the value of <code>NIGHTSHIFT_ADMIN_TOKEN</code>; a service with an embedded database
            stores it in <code>.nightshift/admin-token</code>.
          </p>
          <Ways label="Ways to enqueue" of={waysOf(enqueueTexts(address("jobs"), example))} />
        </Step>
        <Step done={steps.done} name="See the job done">
          <p class="quiet small">
            {steps.enqueued ? (
              <>
                <a href={to("jobs")}>Open the jobs</a>. The page of each job explains why the job is not running.
              </>
            ) : (
              "This step is ticked off when a worker has run the job."
            )}
          </p>
        </Step>
      </ol>
      {isOver(steps) ? null : (
        <p class="quiet small">
          Just looking around? <code>{commands.demo}</code> runs a sample shop with live traffic on a temporary
          database.
        </p>
      )}
    </Card>
  )
}

/** The first steps, in an installation that has hardly any jobs. They stay until the user hides them or leaves. */
export const FirstSteps = ({ queues }: { readonly queues: ReadonlyArray<Queue> }) => {
  const { pods } = useLiveUpdates()
  const [isHidden, setHidden] = useState(() => localStorage.getItem(hidden) !== null)
  const wasNew = useRef(false)
  const own = (pods ?? [])
    .flatMap((pod) => (pod.queues.length === 0 ? [] : pod.kinds))
    .find((kind) => !builtIn.includes(kind))
  const steps = { worker: own !== undefined, enqueued: countOf(queues) > 0, done: countOf(queues, ["done"]) > 0 }
  if (pods !== undefined && countOf(queues) < fewJobs && !isOver(steps)) wasNew.current = true
  if (isHidden || !wasNew.current) return null
  const hide = () => {
    localStorage.setItem(hidden, "hidden")
    setHidden(true)
  }
  return <Steps steps={steps} own={own} onHide={hide} />
}
