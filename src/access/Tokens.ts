import { Context, type Effect, type Redacted, Schema } from "effect"
import { Expected } from "../core/ExpectedError.js"
import type { TokenId, Workspace } from "../core/Ids.js"
import type { DatabaseError } from "../database/DatabaseError.js"

/** A token without its secret. */
export interface Token {
  readonly id: TokenId
  readonly workspace: Workspace
  /** The first characters, which identify the token in lists. */
  readonly prefix: string
  /** A name chosen by the owner; may be empty. */
  readonly label: string
  /** Epoch milliseconds. */
  readonly createdAt: number
}

/** A newly created token with its secret. */
export interface NewToken extends Token {
  readonly secret: Redacted.Redacted
}

/** The workspace has no token with this id. */
export class TokenNotFound extends Expected<TokenNotFound>(404)("TokenNotFound", {
  /** Id that was looked up. */
  id: Schema.String
}) {
  override get message(): string {
    return `This workspace has no token ${this.id}. It may have been revoked already.`
  }
}

export const maxLabelCharacters = 100

/** Access tokens of workspaces. Only their hashes are stored. */
export class Tokens extends Context.Tag("nightshift/access/Tokens")<
  Tokens,
  {
    /** Creates a token. The secret is returned only here. A label longer than `maxLabelCharacters` is truncated. */
    readonly create: (workspace: Workspace, label?: string) => Effect.Effect<NewToken, DatabaseError>

    /** Returns the workspace's tokens, oldest first, without their secrets. */
    readonly list: (workspace: Workspace) => Effect.Effect<ReadonlyArray<Token>, DatabaseError>

    /** Deletes a token and returns it. Takes effect immediately. */
    readonly revoke: (workspace: Workspace, id: TokenId) => Effect.Effect<Token, TokenNotFound | DatabaseError>

    /** Whether this is a token of the workspace, in constant time. */
    readonly verify: (workspace: Workspace, given: string) => Effect.Effect<boolean, DatabaseError>
  }
>() {}

/** A token as stored in the audit log, without its secret. */
export const tokenSummary = ({ id, label, prefix, workspace }: Token) => ({ id, workspace, prefix, label })
