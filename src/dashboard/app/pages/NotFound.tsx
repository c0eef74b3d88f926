import { Empty } from "../parts/Notice"
import { to } from "../Route"

export const NotFound = () => (
  <>
    <div class="head">
      <h1>Page not found</h1>
    </div>
    <Empty>
      This page does not exist. <a href={to("overview")}>Go to the overview</a>
    </Empty>
  </>
)
