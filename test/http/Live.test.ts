import { describe, expect, it } from "vitest"
import { EventStream, eventText } from "../../src/http/live/EventStreams.js"

describe("a subscriber of live events", () => {
  it("is dropped when a megabyte is unread, instead of buffering more", () => {
    const listener = new EventStream()
    const text = eventText("jobs", 1, { text: "x".repeat(100_000) })
    for (let number = 0; number < 11; number += 1) listener.send(text)
    expect(listener.destroyed).toBe(false)
    listener.send(text)
    expect(listener.destroyed).toBe(true)
    listener.send(text)
    listener.finish()
  })

  it("gets an event that is larger than that", () => {
    const listener = new EventStream()
    listener.send(eventText("jobs", 1, 1))
    listener.send(eventText("jobs", 2, "x".repeat(2_000_000)))
    expect(listener.destroyed).toBe(false)
    listener.destroy()
  })

  it("reads each event as lines that no data can forge", () => {
    const text = eventText("jobs", 7, { error: "a\n\nevent: evil\ndata: 1" })
    expect(text.split("\n")).toEqual(["event: jobs", "id: 7", 'data: {"error":"a\\n\\nevent: evil\\ndata: 1"}', "", ""])
  })
})
