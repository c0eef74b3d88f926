// The app of `serve --app`: syntax that needs a compiler, and an import of another TypeScript file.
import { setTimeout as sleep } from "node:timers/promises"
import { type Handler, job } from "nightshift/client"
import { Greeting, type Person } from "./greeting.js"

const anything = <A>() => ({
  "~standard": { version: 1 as const, vendor: "runtimes", validate: (value: unknown) => ({ value: value as A }) }
})

const greet = job("greet", { payload: anything<Person>(), queue: "greetings" })
const slow = job("slow_greet", { payload: anything<Person>(), queue: "greetings" })

export const handlers: ReadonlyArray<Handler> = [
  greet.handle(async ({ name }) => ({ said: `${Greeting.Hello} ${name}` })),
  slow.handle(async ({ name }) => {
    console.log("the job is running")
    await sleep(500)
    console.log(`the job is done: ${name}`)
  })
]
