import { testShift } from "nightshift/testing"
import { expect, it } from "vitest"
import { handlersWith, track } from "../src/bot.js"

const message = (text: string) => ({ message: { chat: { id: 7 }, text } })

it("answers with the state of the parcel", async () => {
  const shift = await testShift({ handlers: handlersWith(async () => "arrives today") })
  const { id } = await shift.enqueue(track, message("/track 17"))
  expect(await shift.result(id)).toBe("Parcel 17: arrives today")
  await shift.close()
})

it("waits for a carrier that does not know the parcel yet", async () => {
  const states = ["pending", "pending", "arrives today"]
  const shift = await testShift({ handlers: handlersWith(async () => states.shift()) })
  const { id } = await shift.enqueue(track, message("/track 17"))
  await shift.advance("19m")
  expect((await shift.job(id)).state).toBe("scheduled")
  await shift.advance("1m")
  expect(await shift.job(id)).toMatchObject({ state: "done", attempt: 1, result: "Parcel 17: arrives today" })
  await shift.close()
})
