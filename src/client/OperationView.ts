import * as JobsFilter from "../http/jobs/JobsFilter.js"
import * as Response from "../http/jobs/OperationView.js"
import type { OperationFields, PreviewFields } from "../queue/admin/OperationFields.js"
import type { Preview } from "../queue/admin/OperationScope.js"
import type { Operation } from "../queue/admin/Operations.js"
import type { JobFilter } from "./JobFilter.js"
import * as JobView from "./JobView.js"
import * as PlainFields from "./PlainFields.js"

/**
 * An action on many jobs that has ended. `done` is the number of jobs it changed, `skipped` the number it could not change, by
 * reason.
 */
export interface OperationView extends PlainFields.PlainFields<OperationFields> {
  /** The filter with the states that the action applies to. */
  readonly filter: JobFilter | undefined
}

/** What an action would do, with `dryRun`. */
export interface BulkPreview extends PreviewFields {
  /** The newest matching jobs, ten at most. */
  readonly sample: ReadonlyArray<JobView.JobView>
}

const fieldsOf = PlainFields.of(Response.OperationView)

/** @internal */
export const of = ({ filter, ...operation }: Operation): OperationView => ({
  ...fieldsOf(operation),
  filter: filter === undefined ? undefined : JobsFilter.view(filter)
})

/** @internal */
export const ofPreview = ({ sample, ...preview }: Preview): BulkPreview => ({
  ...preview,
  sample: sample.map(JobView.of)
})
