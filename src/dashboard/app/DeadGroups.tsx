import { useState } from "preact/hooks"
import { BulkAct } from "./BulkAct"
import * as JobFilter from "./JobFilter"
import { KindLink } from "./Links"
import { Card } from "./parts/Card"
import { Table } from "./parts/Table"
import { Age } from "./parts/Time"
import { slowPoll, useResource } from "./Resource"
import { to } from "./Route"
import { useMayAct } from "./Session"
import { brief, type DeadGroup as Group } from "./Views"

/** Causes that are always shown: the list of jobs is below them. */
const alwaysShown = 8

/**
 * The count, linked to the list of these jobs. A URL filter cannot express "no error", so that group has no link, and
 * neither has one whose filter is hidden.
 */
const Count = ({ of: { count, filter, shape }, sampled }: { readonly of: Group; readonly sampled: boolean }) => {
  const text = `${brief(count)}${sampled ? "+" : ""}`
  if (shape === "" || filter === null) return <>{text}</>
  const { state: _, ...rest } = JobFilter.ofJson(filter)
  return (
    <a href={JobFilter.address("dead", rest)} title="Show these jobs">
      {text} <span class="visually-hidden">jobs</span>
    </a>
  )
}

const GroupTable = (props: {
  groups: ReadonlyArray<Group>
  sampled: boolean
  onAsk: ((group: Group) => void) | undefined
}) => {
  const { groups, onAsk, sampled } = props
  return (
    <Table
      class="stacked groups"
      headings={[
        ["Jobs", "number"],
        "Kind",
        ["Reason", "hide-narrow"],
        "Error",
        "Last",
        onAsk === undefined ? null : <th aria-label="Actions" />
      ]}
    >
      {groups.map((group) => (
        <tr key={`${group.kind} ${group.reason} ${group.shape}`}>
          <td class="number pick">
            <Count of={group} sampled={sampled} />
          </td>
          <td class="name">
            <KindLink name={group.kind} />
          </td>
          <td class="hide-narrow">{group.reason.replaceAll("_", " ")}</td>
          <td class="rest">
            <a class="cut mono" href={to(`jobs/${group.sample.id}`)}>
              {group.shape === "" ? "no error" : group.shape}
            </a>
          </td>
          <td class="when">
            <Age at={group.lastAt} />
          </td>
          {onAsk === undefined ? null : (
            <td class="act">
              {group.filter === null ? null : (
                <button type="button" onClick={() => onAsk(group)}>
                  Requeue all
                </button>
              )}
            </td>
          )}
        </tr>
      ))}
    </Table>
  )
}

/** Dead jobs grouped by kind, reason and error, with a button to requeue each group. */
export const DeadGroups = ({ onDone, pulse }: { readonly onDone: () => void; readonly pulse: number }) => {
  const mayAct = useMayAct()
  const { data, reload } = useResource<{ groups: ReadonlyArray<Group>; looked: number; sampled: boolean }>(
    "jobs/groups",
    { pulse, every: slowPoll }
  )
  const [asked, setAsked] = useState<Group>()
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      {data === undefined || data.groups.length === 0 ? null : (
        <Card
          name="Dead jobs by error"
          title="Causes"
          content="table"
          chips={data.sampled ? <span class="quiet small">of the last {brief(data.looked)} deaths</span> : null}
        >
          <GroupTable
            groups={isOpen ? data.groups : data.groups.slice(0, alwaysShown)}
            sampled={data.sampled}
            onAsk={mayAct ? setAsked : undefined}
          />
          {data.groups.length <= alwaysShown ? null : (
            <p class="note small">
              <button type="button" class="link" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
                {isOpen ? "Show less" : `Show ${data.groups.length - alwaysShown} more`}
              </button>
            </p>
          )}
        </Card>
      )}
      {/* Keep the dialog until it has reported its result, even if the last group is gone by then. */}
      {asked === undefined || asked.filter === null ? null : (
        <BulkAct
          act="requeue"
          target={{ filter: asked.filter }}
          note={
            data?.sampled === true
              ? `The list counts causes among the last ${brief(data.looked)} jobs that died; this covers all of them.`
              : undefined
          }
          onClose={() => setAsked(undefined)}
          onDone={() => {
            setAsked(undefined)
            reload()
            onDone()
          }}
        />
      )}
    </>
  )
}
