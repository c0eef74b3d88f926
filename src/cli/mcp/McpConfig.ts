import { Either } from "effect"
import * as Setting from "../../core/Setting.js"

/** The tools that change something, which `--allow` names. */
export const actNames = ["requeue", "cancel", "pause", "resume", "signal"] as const
export type ActName = (typeof actNames)[number]

const minCharacters = 24

export const settings = {
  token: Setting.secret(
    {
      key: "NIGHTSHIFT_MCP_TOKEN",
      about: `Token that clients of \`nightshift mcp --http\` send, at least ${minCharacters} characters. Required unless it listens on loopback.`
    },
    (text) =>
      text.length >= minCharacters
        ? Either.right(text)
        : Either.left(`a token of at least ${minCharacters} characters, such as the output of openssl rand -hex 24`)
  )
}
