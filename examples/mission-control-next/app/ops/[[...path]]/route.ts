import { type MissionControl, missionControl } from "nightshift/client"
import { userOf } from "../../../lib/login"
import { shift } from "../../../lib/shift"

const start = async () =>
  missionControl(await shift(), {
    path: "/ops",
    loginUrl: "/login",
    authorize: (request: Request) => {
      const user = userOf(request)
      return user === undefined ? "none" : { role: user.role, user: user.name }
    }
  })

// Connects at the first request: `next build` loads this file too, and has no database.
let control: Promise<MissionControl> | undefined
const handle = async (request: Request) => {
  control ??= start().catch((error) => {
    control = undefined
    throw error
  })
  return (await control).fetch(request)
}

export { handle as DELETE, handle as GET, handle as PATCH, handle as POST }
