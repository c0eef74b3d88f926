import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import { Effect, Schema } from "effect"
import * as Workspace from "../../core/Workspace.js"

const read = Schema.decodeUnknown(Workspace.Workspace)

/** `--workspace` on the command line. */
export const option: Options.Options<Workspace.Workspace> = Options.text("workspace").pipe(
  Options.withDescription("The workspace."),
  Options.mapEffect((text) =>
    Effect.mapError(read(text), () =>
      ValidationError.invalidValue(HelpDoc.p(`--workspace ${Workspace.rule}, not ${JSON.stringify(text)}.`))
    )
  )
)
