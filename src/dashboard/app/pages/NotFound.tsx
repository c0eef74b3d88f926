import { Head } from "../parts/Head"
import { Empty } from "../parts/Notice"
import { to } from "../Route"

export const NotFound = () => (
  <>
    <Head title="Page not found" />
    <Empty>
      This page does not exist. <a href={to("overview")}>Go to the overview</a>
    </Empty>
  </>
)

/** Shown instead of a job or an execution that does not exist. */
export const Gone = (props: { readonly what: "job" | "execution"; readonly id: string; readonly list: string }) => (
  <>
    <Head title={`${props.what === "job" ? "Job" : "Execution"} not found`} />
    <Empty>
      There is no {props.what} <span class="mono">{props.id}</span>. It was deleted, or its retention has passed.{" "}
      <a href={to(props.list)}>Show all {props.what}s</a>
    </Empty>
  </>
)
