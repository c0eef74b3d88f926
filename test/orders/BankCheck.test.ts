import { describe, expect, it } from "vitest"
import { type BankFacts, type BookEntry, check, type Ended } from "./BankCheck.js"

const order = "order/a"
const payment = "order/a/charge"
const entry = (event: BookEntry["event"], at: number, more: Partial<BookEntry> = {}): BookEntry => ({
  event,
  execution: order,
  key: event.startsWith("refund") ? "order/a/undo:charge" : payment,
  payment,
  pid: 1,
  at,
  ...more
})
const charged = [entry("charge begins", 0), entry("charged", 10)]
const refunded = [entry("refund begins", 20), entry("refunded", 30)]
/** The same entries when the order is tried again after its undo. */
const again = (entries: ReadonlyArray<BookEntry>) =>
  entries.map((each) => ({
    ...each,
    key: `${each.key}/after-undo-1`,
    payment: `${payment}/after-undo-1`,
    at: each.at + 100
  }))
const ended = (more: Partial<Ended> = {}): Ended => ({
  execution: order,
  status: "done",
  reason: null,
  recorded: ["charge"],
  ...more
})
const cancelled = { status: "dead", reason: "cancelled" }
const facts = (more: Partial<BankFacts> = {}): BankFacts => ({
  book: charged,
  ended: [ended()],
  absences: [],
  ...more
})

describe("the bank check", () => {
  it.each([
    ["a done order that was charged", facts()],
    ["a charge that was repeated with its key", facts({ book: [...charged, entry("charged", 15)] })],
    ["a cancelled order that was refunded", facts({ book: [...charged, ...refunded], ended: [ended(cancelled)] })],
    [
      "a refund that was repeated with its key",
      facts({ book: [...charged, ...refunded, entry("refunded", 40)], ended: [ended(cancelled)] })
    ],
    ["an order that was refunded, tried again and done", facts({ book: [...charged, ...refunded, ...again(charged)] })],
    [
      "an order that was refunded, tried again and refunded again",
      facts({
        book: [...charged, ...refunded, ...again(charged), ...again(refunded)],
        ended: [ended(cancelled)]
      })
    ],
    ["a charge that did not take effect", facts({ book: [], ended: [ended({ ...cancelled, recorded: [] })] })]
  ])("accepts %s", (_, given) => {
    expect(check(given).violations).toEqual([])
  })

  it.each([
    ["a cancelled order that keeps its charge", facts({ ended: [ended(cancelled)] }), "has 0 refunds, not 1"],
    [
      "a charge that a live process did not record",
      facts({ ended: [ended({ ...cancelled, recorded: [] })] }),
      "the journal does not have the step"
    ],
    ["a done order that was refunded", facts({ book: [...charged, ...refunded] }), "has 1 refunds, not 0"],
    [
      "an order that was tried again without a refund of its first charge",
      facts({ book: [...charged, ...again(charged)] }),
      "order/a/charge: order/a is done and the charge has 0 refunds, not 1"
    ],
    [
      "a second refund under another key",
      facts({
        book: [...charged, ...refunded, entry("refunded", 40, { key: "order/a/undo:charge#2" })],
        ended: [ended(cancelled)]
      }),
      "has 2 refunds, not 1"
    ],
    ["a charge of an order that is lost", facts({ ended: [] }), "which does not exist"],
    ["a done order without the record of its charge", facts({ ended: [ended({ recorded: [] })] }), "has no such step"],
    ["a record without a charge", facts({ book: [] }), "charged nothing"],
    [
      "a refund before the charge",
      facts({ book: [...refunded, entry("charged", 90)], ended: [ended(cancelled)] }),
      "refunded before it was charged"
    ]
  ])("reports %s", (_, given, expected) => {
    expect(check(given).violations).toEqual([expect.stringContaining(expected)])
  })

  it("counts a charge whose process was killed before the record, and that was not tried again, apart", () => {
    const unrecorded = facts({
      ended: [ended({ ...cancelled, recorded: [] })],
      absences: [{ pid: 1, from: 12, to: Number.POSITIVE_INFINITY }]
    })
    expect(check(unrecorded)).toMatchObject({ violations: [], unrecorded: [payment] })
    const later = { ...unrecorded, absences: [{ pid: 1, from: 60_000, to: Number.POSITIVE_INFINITY }] }
    expect(check(later)).toMatchObject({ violations: [expect.stringContaining("has 0 refunds")], unrecorded: [] })
    const other = { ...unrecorded, absences: [{ pid: 2, from: 12, to: Number.POSITIVE_INFINITY }] }
    expect(check(other)).toMatchObject({ violations: [expect.stringContaining("has 0 refunds")], unrecorded: [] })
  })
})
