import { describe, expect, it } from "@effect/vitest"
import { SlewedTime } from "../../src/database/DatabaseClock.js"

const at = (offset: number) => {
  const machine = { now: 1_000_000 }
  return { machine, time: new SlewedTime(() => machine.now, offset) }
}

describe("SlewedTime", () => {
  it("shows the reference time from the first reading", () => {
    const { machine, time } = at(-250)
    expect(time.now()).toBe(machine.now - 250)
  })

  it("closes a gap at a tenth of elapsed time", () => {
    const { machine, time } = at(0)
    time.setOffset(100)
    expect(time.now()).toBe(machine.now)
    machine.now += 500
    expect(time.now()).toBe(machine.now + 50)
    machine.now += 5_000
    expect(time.now()).toBe(machine.now + 100)
  })

  it("never runs backwards, whatever the reference and the machine clock do", () => {
    const { machine, time } = at(0)
    let last = time.now()
    const steps = [10, 0, 3, 700, -400, 1, 12, 9_000, -8_000, 5]
    const aims = [-60_000, 40, -40, 3_600_000, -3_600_000, 0, 7, -7, 90_000, -1]
    for (let turn = 0; turn < 200; turn += 1) {
      machine.now += steps[turn % steps.length] ?? 0
      time.setOffset(aims[turn % aims.length] ?? 0)
      const reading = time.now()
      expect(reading).toBeGreaterThanOrEqual(last)
      last = reading
    }
  })

  it("runs at half speed while far ahead, and reaches the reference after twice the difference", () => {
    const { machine, time } = at(0)
    time.setOffset(-300_000)
    const begun = time.now()
    for (let second = 0; second < 60; second += 1) {
      machine.now += 1_000
      time.now()
    }
    expect(time.now() - begun).toBe(30_000)
    for (let second = 60; second < 650; second += 1) {
      machine.now += 1_000
      time.now()
    }
    expect(time.now()).toBe(machine.now - 300_000)
  })

  it("steps forward at once when it is far behind", () => {
    const { machine, time } = at(0)
    time.setOffset(60_000)
    expect(time.now()).toBe(machine.now + 60_000)
  })
})
