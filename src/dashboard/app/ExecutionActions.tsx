import type { ComponentChildren } from "preact"
import { useState } from "preact/hooks"
import * as StepName from "../../core/StepName.js"
import * as Api from "./Api"
import { useCommands } from "./Commands"
import { executionAddress, isErased } from "./ExecutionState"
import { Dialog } from "./parts/Dialog"
import { given, ReasonInput } from "./parts/ReasonInput"
import { SaveForm } from "./parts/SaveForm"
import { Suggestions } from "./parts/Suggestions"
import { showToast } from "./parts/Toasts"
import { go } from "./Route"
import type { Execution } from "./Views"
import { isFinished } from "./Waterfall"

interface Given {
  readonly execution: Execution
  readonly onClose: () => void
  readonly onDone: () => void
}

const pathOf = ({ execution }: Execution) => `workflows/${encodeURIComponent(execution)}`

/** A confirmation dialog for one action. */
const Ask = (props: {
  readonly title: string
  readonly name: string
  readonly danger?: boolean
  readonly of: Given
  /** Rejects with the message to show. */
  readonly act: () => Promise<string>
  readonly children: ComponentChildren
}) => {
  const { onClose, onDone } = props.of
  const save = async () => {
    showToast(await props.act())
    onClose()
    onDone()
  }
  return (
    <Dialog title={props.title} onClose={onClose}>
      <SaveForm label={props.title} name={props.name} danger={props.danger ?? false} save={save} onCancel={onClose}>
        {props.children}
      </SaveForm>
    </Dialog>
  )
}

const SendSignal = (of: Given) => {
  const { execution } = of
  const awaited = execution.waits
    .filter(({ kind, name }) => kind === "message" || (kind === "signal" && StepName.eventOf(name) === undefined))
    .map(({ kind, name }) => (kind === "message" ? StepName.signalOf(name) : name))
  const [name, setName] = useState(awaited[0] ?? "")
  const [value, setValue] = useState("")
  const act = async () => {
    const text = value.trim() === "" ? "null" : value
    try {
      JSON.parse(text)
    } catch (error) {
      throw new Error(`The value is not valid JSON: ${(error as Error).message}. Text needs double quotes.`)
    }
    const { outcome, waitsFor } = await Api.post<{ outcome: string; waitsFor: ReadonlyArray<string> | null }>(
      `${pathOf(execution)}/signal`,
      { name },
      { value: text }
    )
    if (outcome === "appended") return `Value appended to signal ${name}: step.next receives it`
    const isExpected = waitsFor === null || waitsFor.length === 0 || waitsFor.includes(name)
    return isExpected ? `Signal ${name} sent` : `Signal ${name} kept: the execution waits for ${waitsFor.join(", ")}`
  }
  return (
    <Ask title={`Send a signal to ${execution.execution}`} name="Send signal" of={of} act={act}>
      <label class="field">
        Name
        <input
          required
          value={name}
          placeholder="approval"
          list="awaited-signals"
          onInput={(event) => setName(event.currentTarget.value)}
        />
      </label>
      <Suggestions id="awaited-signals" of={awaited} />
      <label class="field">
        Value (JSON)
        <textarea
          spellcheck={false}
          value={value}
          placeholder={'null, or {"by": "ada"}'}
          onInput={(event) => setValue(event.currentTarget.value)}
        />
      </label>
      <p class="quiet small">
        A value cannot be changed or withdrawn. Code that waits with waitFor receives the first one.
      </p>
    </Ask>
  )
}

const Cancel = (of: Given) => {
  const { execution } = of
  const [now, setNow] = useState(false)
  const [reason, setReason] = useState("")
  const act = async () => {
    const { cancelled } = await Api.post<{ cancelled: number }>(`${pathOf(execution)}/cancel`, {
      ...(now ? { now } : {}),
      ...given(reason)
    })
    const below = cancelled > 1 ? ` with ${cancelled - 1} ${cancelled === 2 ? "descendant" : "descendants"}` : ""
    return `${execution.execution} ${now ? "cancelled" : "is being cancelled"}${below}`
  }
  return (
    <Ask title={`Cancel ${execution.execution}?`} name="Cancel execution" danger of={of} act={act}>
      <p>Its steps are undone, the last one first. Children that it waits for are cancelled too.</p>
      <label class="row">
        <input type="checkbox" checked={now} onChange={(event) => setNow(event.currentTarget.checked)} />
        Skip undo and end immediately
      </label>
      <ReasonInput value={reason} onChange={setReason} />
      <p class="quiet small">Cannot be undone. Retry runs it again.</p>
    </Ask>
  )
}

const Retry = (of: Given) => {
  const { execution } = of
  const act = async () => {
    await Api.post(`${pathOf(execution)}/retry`)
    return `${execution.execution} retried`
  }
  return (
    <Ask title={`Retry ${execution.execution}?`} name="Retry execution" of={of} act={act}>
      <p>
        {execution.state === "changed"
          ? "The code that is deployed now is tried again. Nothing runs if it still does not follow the journal."
          : "It runs again from its failed step. Steps that are done and were not undone keep their results."}
      </p>
    </Ask>
  )
}

/** Confirms starting a new execution from a step of this one. */
export const Fork = ({ step, ...of }: Given & { readonly step: string }) => {
  const { execution } = of
  const [as, setAs] = useState("")
  const [reason, setReason] = useState("")
  const act = async () => {
    const forked = await Api.post<{ execution: string }>(`${pathOf(execution)}/fork`, {
      step,
      ...(as === "" ? {} : { as }),
      ...given(reason)
    })
    go(executionAddress(forked.execution))
    return `${forked.execution} started`
  }
  return (
    <Ask title={`Fork from ${step}?`} name="Fork execution" of={of} act={act}>
      <p>
        A new execution starts with the payload of {execution.execution} and the results before this step. The original
        does not change. Children from this step on run again, under new keys.
      </p>
      <label class="field">
        Id of the new execution
        <input value={as} placeholder="generated" onInput={(event) => setAs(event.currentTarget.value)} />
      </label>
      <ReasonInput value={reason} onChange={setReason} />
    </Ask>
  )
}

const Unpin = (of: Given) => {
  const { execution } = of
  const [reason, setReason] = useState("")
  const act = async () => {
    await Api.post(`${pathOf(execution)}/unpin`, given(reason))
    return `${execution.execution} unpinned`
  }
  return (
    <Ask title={`Unpin ${execution.execution}?`} name="Unpin execution" of={of} act={act}>
      <p>
        Every release may run it then, not only {execution.pinned}. Nothing runs if the code of another release does not
        follow the journal.
      </p>
      <ReasonInput value={reason} onChange={setReason} />
    </Ask>
  )
}

const dialogs = { signal: SendSignal, retry: Retry, cancel: Cancel, unpin: Unpin } as const

/** The actions on one execution. Every button keeps its place in every state, and asks for confirmation. */
export const ExecutionActions = (props: { readonly execution: Execution; readonly onChange: () => void }) => {
  const { execution, onChange } = props
  const [open, setOpen] = useState<keyof typeof dialogs>()
  const isOver = isFinished(execution)
  const isRetriable = !isErased(execution) && ((isOver && execution.state !== "done") || execution.state === "changed")
  const Opened = open === undefined ? undefined : dialogs[open]
  useCommands([
    ...(isOver ? [] : [{ name: "Send a signal to this execution", run: () => setOpen("signal") }]),
    ...(isRetriable ? [{ name: "Retry this execution", run: () => setOpen("retry") }] : []),
    ...(isOver ? [] : [{ name: "Cancel this execution", run: () => setOpen("cancel") }])
  ])
  return (
    <div class="side">
      <button
        type="button"
        class={execution.state === "waiting" ? "primary" : ""}
        disabled={isOver}
        title={isOver ? "The execution has ended." : undefined}
        onClick={() => setOpen("signal")}
      >
        Send signal
      </button>
      <button
        type="button"
        class={isRetriable ? "primary" : ""}
        disabled={!isRetriable}
        title={
          isRetriable
            ? undefined
            : isErased(execution)
              ? "The data of this execution was erased, so it cannot run again."
              : "Retry applies only to failed, cancelled and changed executions."
        }
        onClick={() => setOpen("retry")}
      >
        Retry
      </button>
      <button
        type="button"
        class="danger"
        disabled={isOver}
        title={isOver ? "The execution has ended." : undefined}
        onClick={() => setOpen("cancel")}
      >
        Cancel
      </button>
      {execution.pinned === null ? null : (
        <button
          type="button"
          disabled={isOver}
          title={isOver ? "The execution has ended." : undefined}
          onClick={() => setOpen("unpin")}
        >
          Unpin
        </button>
      )}
      {Opened === undefined ? null : (
        <Opened execution={execution} onClose={() => setOpen(undefined)} onDone={onChange} />
      )}
    </div>
  )
}
