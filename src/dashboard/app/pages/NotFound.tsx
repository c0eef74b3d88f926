import { Empty } from "../parts/Notice"
import { to } from "../Route"

export const NotFound = () => (
  <Empty>
    There is no such page. <a href={to("overview")}>Go to the overview.</a>
  </Empty>
)
