import { Context, type Effect, type Redacted, Schema } from "effect"
import type { TokenId } from "../core/Ids.js"
import type { Workspace } from "../core/Workspace.js"
import type { DatabaseError } from "../database/DatabaseError.js"

/** What may be known of a token after it was handed out. */
export interface Token {
  readonly id: TokenId
  readonly workspace: Workspace
  /** Its first characters, by which a person recognizes it. */
  readonly prefix: string
  /** What its owner calls it; empty when they call it nothing. */
  readonly label: string
  /** Epoch milliseconds. */
  readonly createdAt: number
}

/** A token, this once with its secret. */
export interface NewToken extends Token {
  readonly secret: Redacted.Redacted
}

/** The workspace has no such token, or not any more. */
export class TokenNotFound extends Schema.TaggedError<TokenNotFound>()("TokenNotFound", { id: Schema.String }) {
  override get message(): string {
    return `There is no token ${this.id} of this workspace.`
  }
}

/** How long a label may be. */
export const mostLabelCharacters = 100

/** Tokens by which workspaces are let in. What is stored does not let anybody in. */
export class Tokens extends Context.Tag("nightshift/access/Tokens")<
  Tokens,
  {
    /** Makes a token. This is the only time its secret is seen; a label is cut to what may be stored. */
    readonly create: (workspace: Workspace, label?: string) => Effect.Effect<NewToken, DatabaseError>

    /** The workspace's tokens, oldest first, without their secrets. */
    readonly list: (workspace: Workspace) => Effect.Effect<ReadonlyArray<Token>, DatabaseError>

    /** From now on the token lets nobody in. Answers what it was. */
    readonly revoke: (workspace: Workspace, id: TokenId) => Effect.Effect<Token, TokenNotFound | DatabaseError>

    /** Whether this is a token of the workspace. How long that takes says nothing about how nearly it is one. */
    readonly verify: (workspace: Workspace, given: string) => Effect.Effect<boolean, DatabaseError>
  }
>() {}
