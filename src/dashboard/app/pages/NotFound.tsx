import { Empty } from "../parts/Notice"
import { to } from "../Route"

export const NotFound = () => (
  <>
    <div class="head">
      <h1>No such page</h1>
    </div>
    <Empty>
      There is nothing at this address. <a href={to("overview")}>Go to the overview.</a>
    </Empty>
  </>
)
