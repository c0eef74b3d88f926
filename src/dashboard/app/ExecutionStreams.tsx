import { useEffect, useRef, useState } from "preact/hooks"
import { address, query } from "./Api"
import { Card, Fold } from "./parts/Card"
import { Table } from "./parts/Table"
import { Age } from "./parts/Time"
import { bytesText, type Execution } from "./Views"
import { whileShown } from "./WhileShown"

type Stream = Execution["streams"][number]

/** The job state whose colour each state has. */
const colours: Readonly<Record<Stream["state"], string>> = {
  open: "running",
  done: "done",
  failed: "dead",
  interrupted: "cancelled"
}

/** Chunks before the end with which a tail begins, and characters that it shows. */
const tailChunks = 200
const tailCharacters = 100_000

/** Milliseconds until a stream that was answered with an error is opened again. */
const reconnectDelay = 3_000

interface Chunk {
  readonly generation: number
  readonly value: unknown
}

interface Tail {
  readonly text: string
  readonly link: "connecting" | "live" | "ended"
  readonly generation: number
}

/** Text as it is, other values one per line. */
const textOf = ({ value }: Chunk) => (typeof value === "string" ? value : `${JSON.stringify(value)}\n`)

/** Follows a stream. Continues behind the last chunk after a broken connection, and after an error response. */
const useTail = (execution: string, name: string): Tail => {
  const [tail, setTail] = useState<Tail>({ text: "", link: "connecting", generation: 0 })
  useEffect(() => {
    setTail({ text: "", link: "connecting", generation: 0 })
    const path = `workflows/${encodeURIComponent(execution)}/streams/${encodeURIComponent(name)}`
    let source: EventSource | undefined
    let last: string | undefined
    let timer: number | undefined
    let hasEnded = false
    let arrived: Array<Chunk> = []
    let frame: number | undefined
    // Tokens arrive faster than the page can be drawn.
    const draw = () => {
      frame = undefined
      const chunks = arrived
      arrived = []
      setTail((before) => {
        const generation = chunks.at(-1)?.generation ?? before.generation
        const own = chunks.filter((chunk) => chunk.generation === generation)
        const kept = generation === before.generation ? before.text : ""
        return { text: `${kept}${own.map(textOf).join("")}`.slice(-tailCharacters), link: "live", generation }
      })
    }
    const link = (to: Tail["link"]) => setTail((before) => ({ ...before, link: to }))
    const connect = () => {
      const from = last === undefined ? { from: -tailChunks } : { after: last }
      const opened = new EventSource(address(`${path}${query(from)}`), { withCredentials: true })
      source = opened
      opened.onopen = () => link("live")
      opened.onerror = () => {
        link("connecting")
        if (opened.readyState === EventSource.CLOSED) timer = window.setTimeout(connect, reconnectDelay)
      }
      opened.onmessage = ({ data, lastEventId }: MessageEvent<string>) => {
        last = lastEventId
        arrived.push(JSON.parse(data))
        frame ??= requestAnimationFrame(draw)
      }
      opened.addEventListener("end", () => {
        opened.close()
        hasEnded = true
        if (frame !== undefined) cancelAnimationFrame(frame)
        draw()
        link("ended")
      })
    }
    const disconnect = () => {
      clearTimeout(timer)
      source?.close()
    }
    connect()
    const end = whileShown(
      () => !hasEnded && connect(),
      () => {
        disconnect()
        if (!hasEnded) link("connecting")
      }
    )
    return () => {
      end()
      disconnect()
      if (frame !== undefined) cancelAnimationFrame(frame)
    }
  }, [execution, name])
  return tail
}

const notes: Readonly<Record<Tail["link"], string>> = {
  connecting: "Connecting.",
  live: "Live.",
  ended: "The stream has ended."
}

const StreamTail = (props: { readonly execution: string; readonly stream: string }) => {
  const { generation, link, text } = useTail(props.execution, props.stream)
  const box = useRef<HTMLPreElement>(null)
  useEffect(() => {
    if (box.current !== null) box.current.scrollTop = box.current.scrollHeight
  }, [text])
  return (
    <div class="body stack">
      <p class="quiet" role="status">
        <strong>{props.stream}</strong>
        {generation > 1 ? `, generation ${generation}` : ""}: {notes[link]}
      </p>
      <pre class="text tail" ref={box}>
        {text}
      </pre>
    </div>
  )
}

/** The streams that the steps of an execution write, and the end of one of them. */
export const ExecutionStreams = ({ execution }: { readonly execution: Execution }) => {
  const [shown, setShown] = useState<string>()
  if (execution.streams.length === 0) return null
  return (
    <Card name="Streams" content="table">
      <Table
        class="stacked"
        headings={["State", "Name", ["Generation", "number"], ["Chunks", "number"], ["Size", "number"], "Began", ""]}
      >
        {execution.streams.map(({ bytes, count, generation, name, startedAt, state }) => (
          <tr key={name}>
            <td class="what">
              <span class={`state ${colours[state]}`}>{state}</span>
            </td>
            <td class="name">{name}</td>
            <td class="number">{generation}</td>
            <td class="number">{count}</td>
            <td class="number size">{bytesText(bytes)}</td>
            <td class="when">
              <Age at={startedAt} />
            </td>
            <td class="acts">
              <Fold open={shown === name} turn={(open) => setShown(open ? name : undefined)}>
                {shown === name ? "Hide" : "Follow"}
              </Fold>
            </td>
          </tr>
        ))}
      </Table>
      {shown === undefined ? null : <StreamTail key={shown} execution={execution.execution} stream={shown} />}
    </Card>
  )
}
