import * as Api from "../Api"
import { Card } from "../parts/Card"
import { FilterInput, FilterSelect } from "../parts/Filters"
import { Head } from "../parts/Head"
import { Empty, Shown } from "../parts/Notice"
import { Pager } from "../parts/Pager"
import { Table } from "../parts/Table"
import { Tile } from "../parts/Tile"
import { Age, span } from "../parts/Time"
import { useResource } from "../Resource"
import { type Route, to } from "../Route"
import { brief, bytesText, type UploadedFile, type UploadState, type UploadsOverview, uploadStates } from "../Views"

/** File states use the colours of job states. */
const colours: Readonly<Record<UploadState, string>> = {
  waiting: "pending",
  fetched: "running",
  acked: "done",
  expired: "dead"
}

const Badge = ({ state }: { readonly state: UploadState }) => <span class={`state ${colours[state]}`}>{state}</span>

const StateTiles = ({ counts }: Pick<UploadsOverview, "counts">) => (
  <div class="tiles">
    {uploadStates.map((state) => (
      <Tile key={state} figure={brief(counts[state])} href={to("uploads", { state })}>
        <Badge state={state} />
      </Tile>
    ))}
  </div>
)

const Stuck = ({ stuck }: Pick<UploadsOverview, "stuck">) =>
  stuck.length === 0 ? null : (
    <Card
      name="Stuck workspaces"
      content="table"
      chips={
        <span class="quiet small">
          Files waiting for more than an hour. Check that <code>nightshift uploads pull</code> is running with a valid
          token.
        </span>
      }
    >
      <Table headings={["Workspace", ["Files", "number"], ["Size", "number"], ["Oldest file", "number"]]}>
        {stuck.map(({ bytes, files, waitingSeconds, workspace }) => (
          <tr key={workspace}>
            <td>
              <a href={to("uploads", { workspace })}>{workspace}</a>
            </td>
            <td class="number">{brief(files)}</td>
            <td class="number">{bytesText(bytes)}</td>
            <td class="number">{span(waitingSeconds)}</td>
          </tr>
        ))}
      </Table>
    </Card>
  )

/** The last or next event of a file. */
const Last = ({ file }: { readonly file: UploadedFile }) => {
  if (file.state === "acked")
    return (
      <>
        acked <Age at={file.ackedAt} />
      </>
    )
  if (file.state === "expired")
    return (
      <>
        expired <Age at={file.expiresAt} />
      </>
    )
  return (
    <>
      {file.state === "fetched" ? (
        <>
          fetched <Age at={file.fetchedAt} />,{" "}
        </>
      ) : null}
      expires <Age at={file.expiresAt} />
    </>
  )
}

const FileTable = ({ files }: { readonly files: ReadonlyArray<UploadedFile> }) => (
  <Table
    class="stacked files"
    headings={["State", "Workspace", "Name", ["Size", "number"], ["Type", "hide-narrow"], "Arrived", "Status"]}
  >
    {files.map((file) => (
      <tr key={file.id}>
        <td class="what">
          <Badge state={file.state} />
        </td>
        <td class="queue">{file.workspace}</td>
        <td class="name">
          <div class="cut" title={`sha256 ${file.sha256}`}>
            {file.originalName}
          </div>
        </td>
        <td class="number size">{bytesText(file.size)}</td>
        <td class="hide-narrow">
          <div class="cut mono">{file.mimeType}</div>
        </td>
        <td class="when">
          <Age at={file.createdAt} />
        </td>
        <td class="last">
          <Last file={file} />
        </td>
      </tr>
    ))}
  </Table>
)

export const Uploads = ({ route }: { readonly route: Route }) => {
  const filter = { workspace: route.query.get("workspace"), state: route.query.get("state") }
  const overview = useResource<UploadsOverview>("uploads", { every: 5_000 })
  const page = useResource<{ files: ReadonlyArray<UploadedFile>; next: string | null }>(
    `uploads/files${Api.query({ ...filter, cursor: route.query.get("cursor") })}`,
    { every: 5_000 }
  )
  const isFiltered = Object.values(filter).some((value) => value !== null && value !== "")
  return (
    <>
      <Head title="Uploads" />
      <Shown of={overview}>
        {({ counts, stuck }) => (
          <>
            <StateTiles counts={counts} />
            <Stuck stuck={stuck} />
          </>
        )}
      </Shown>
      <search class="row">
        <FilterInput route={route} name="workspace" label="Workspace" width="wide" main />
        <FilterSelect route={route} name="state" label="State" options={uploadStates} />
      </search>
      <Shown of={page}>
        {({ files, next }) => (
          <div class={page.isOther ? "card gone" : "card"}>
            {files.length > 0 ? (
              <FileTable files={files} />
            ) : isFiltered ? (
              <Empty>No files match this filter.</Empty>
            ) : (
              <Empty>
                No files yet. Create a workspace token with <code>nightshift uploads tokens create</code> and upload
                files to <code>/uploads/WORKSPACE</code>.
              </Empty>
            )}
            <Pager next={next} route={route} />
          </div>
        )}
      </Shown>
    </>
  )
}
