import { Hono } from "hono"
import { setCookie } from "hono/cookie"
import { missionControl, type Shift } from "nightshift/client"
import { greet } from "./jobs.js"
import { form, logIn, userOf } from "./login.js"

export const createApp = (shift: Shift) => {
  const control = missionControl(shift, {
    path: "/ops",
    loginUrl: "/login",
    authorize: (request: Request) => {
      const user = userOf(request)
      return user === undefined ? "none" : { role: user.role, user: user.name }
    }
  })
  return new Hono()
    .all("/ops/*", (c) => control.fetch(c.req.raw))
    .get("/login", (c) => c.html(form))
    .post("/login", async (c) => {
      const { name, password } = await c.req.parseBody()
      const session = logIn(name, password)
      if (session === undefined) return c.html(form, 401)
      setCookie(c, "session", session, { httpOnly: true, sameSite: "Lax" })
      return c.redirect("/ops", 303)
    })
    .post("/greetings", async (c) => {
      const { id } = await shift.enqueue(greet, await c.req.json())
      return c.json({ job: id }, 202)
    })
}
