import * as Api from "../Api"
import { DraftInput } from "../parts/DraftInput"
import { Empty, Shown } from "../parts/Notice"
import { Pager } from "../parts/Pager"
import { Age, span } from "../parts/Time"
import { useResource } from "../Resource"
import { type Route, refine, to } from "../Route"
import { brief, bytesText, type UploadedFile, type UploadState, type UploadsOverview, uploadStates } from "../Views"

/** File states use the colours of job states. */
const colours: Readonly<Record<UploadState, string>> = {
  waiting: "pending",
  fetched: "running",
  acked: "done",
  expired: "dead"
}

const Badge = ({ state }: { readonly state: UploadState }) => <span class={`state ${colours[state]}`}>{state}</span>

const Tiles = ({ counts }: Pick<UploadsOverview, "counts">) => (
  <div class="tiles">
    {uploadStates.map((state) => (
      <a class="card tile" key={state} href={to("uploads", { state })}>
        <div class="figure">{brief(counts[state])}</div>
        <Badge state={state} />
      </a>
    ))}
  </div>
)

const Stuck = ({ stuck }: Pick<UploadsOverview, "stuck">) =>
  stuck.length === 0 ? null : (
    <section class="card" aria-label="Stuck workspaces">
      <header>
        <h2>Stuck workspaces</h2>
        <span class="quiet small">
          Files waiting for more than an hour. Check that <code>nightshift uploads pull</code> is running with a valid
          token.
        </span>
      </header>
      <div class="table-wrap">
        <table>
          <thead>
            <tr>
              <th>Workspace</th>
              <th class="number">Files</th>
              <th class="number">Size</th>
              <th class="number">Oldest file</th>
            </tr>
          </thead>
          <tbody>
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
          </tbody>
        </table>
      </div>
    </section>
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
  <div class="table-wrap">
    <table class="stacked files">
      <thead>
        <tr>
          <th>State</th>
          <th>Workspace</th>
          <th>Name</th>
          <th class="number">Size</th>
          <th class="hide-narrow">Type</th>
          <th>Arrived</th>
          <th>Status</th>
        </tr>
      </thead>
      <tbody>
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
      </tbody>
    </table>
  </div>
)

const Filters = ({ route }: { readonly route: Route }) => (
  <search class="row">
    <DraftInput
      type="search"
      label="Workspace"
      width="wide"
      main
      value={route.query.get("workspace") ?? ""}
      onGive={(workspace) => refine(route, { workspace, cursor: undefined })}
    />
    <select
      aria-label="State"
      value={route.query.get("state") ?? ""}
      onChange={(event) => refine(route, { state: event.currentTarget.value, cursor: undefined })}
    >
      <option value="">Any state</option>
      {uploadStates.map((state) => (
        <option key={state}>{state}</option>
      ))}
    </select>
  </search>
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
      <div class="head">
        <h1>Uploads</h1>
      </div>
      <Shown of={overview}>
        {({ counts, stuck }) => (
          <>
            <Tiles counts={counts} />
            <Stuck stuck={stuck} />
          </>
        )}
      </Shown>
      <Filters route={route} />
      <Shown of={page}>
        {({ files, next }) => (
          <div class="card">
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
