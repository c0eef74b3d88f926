import express, { type Request } from "express"
import { missionControl, type Shift } from "nightshift/client"
import { greet } from "./jobs.js"
import { form, logIn, userOf } from "./login.js"

export const createApp = (shift: Shift) => {
  const app = express()

  const control = missionControl(shift, {
    path: "/ops",
    loginUrl: "/login",
    authorize: (request: Request) => {
      const user = userOf(request)
      return user === undefined ? "none" : { role: user.role, user: user.name }
    }
  })
  // In front of the body parsers: Mission Control reads the bodies of its requests itself.
  app.use(control.handler)
  app.use(express.json(), express.urlencoded())

  app.get("/login", (_, response) => void response.type("html").send(form))
  app.post("/login", (request, response) => {
    const session = logIn(request.body.name, request.body.password)
    if (session === undefined) response.status(401).type("html").send(form)
    else response.cookie("session", session, { httpOnly: true, sameSite: "lax" }).redirect(303, "/ops")
  })

  app.post("/greetings", async (request, response) => {
    const { id } = await shift.enqueue(greet, request.body)
    response.status(202).json({ job: id })
  })

  return app
}
