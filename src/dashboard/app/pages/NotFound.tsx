import { Head } from "../parts/Head"
import { Empty } from "../parts/Notice"
import { to } from "../Route"
import { useAt, useFleet } from "../Session"

export const NotFound = () => (
  <>
    <Head title="Page not found" />
    <Empty>
      This page does not exist. <a href={to("overview")}>Go to the overview</a>
    </Empty>
  </>
)

/** Shown instead of something that does not exist. */
export const Gone = (props: {
  readonly what: "job" | "execution" | "event" | "endpoint"
  readonly id: string
  readonly list: string
}) => {
  const fleet = useFleet()
  const at = useAt()
  const others = fleet?.cells.filter((name) => name !== fleet.shown) ?? []
  return (
    <>
      <Head title={`${props.what.charAt(0).toUpperCase()}${props.what.slice(1)} not found`} />
      <Empty>
        There is no {props.what} <span class="mono">{props.id}</span>. It was deleted
        {props.what === "endpoint" ? "" : ", or its retention has passed"}.{" "}
        <a href={to(props.list)}>Show all {props.what}s</a>
        {others.length === 0 ? null : (
          <p>
            Look in{" "}
            {others.map((name) => (
              <>
                <a key={name} href={at(name, to(`${props.list}/${encodeURIComponent(props.id)}`))}>
                  cell {name}
                </a>{" "}
              </>
            ))}
          </p>
        )}
      </Empty>
    </>
  )
}
