import type { Packed } from "./package.mjs"
import type { Plan } from "./plan.mjs"

/** What checks read. Those of the package need `packed`. */
export interface Context {
  readonly root: string
  readonly version?: string
  readonly plan?: Plan
  readonly packed?: Packed
  readonly isTagged?: boolean
}

type Check = (context: Context) => ReadonlyArray<string> | Promise<ReadonlyArray<string>>

type Quick =
  | "clean work tree"
  | "branch"
  | "tag"
  | "changelog"
  | "placeholders"
  | "lock files"
  | "migrations"
  | "README"
type Slow = "package contents" | "links in the package" | "entry points" | "website" | "workflows"

export declare const quickChecks: Readonly<Record<Quick, Check>>
export declare const checks: Readonly<Record<Quick | Slow, Check>>

/** Runs checks one after another. A check that throws has failed. */
export declare const run: (
  chosen: Readonly<Record<string, Check>>,
  context: Context
) => Promise<ReadonlyArray<{ readonly name: string; readonly problem: string }>>
