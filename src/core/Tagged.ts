import { Data } from "effect"

/**
 * Returns the constructors of a tagged enum, each created once. Effect's `taggedEnum` creates a new constructor on
 * every property access, which is too slow for the ones used for every job. The type requires `tags` to list every tag.
 */
export const taggedEnum = <A extends { readonly _tag: string }>(
  tags: Readonly<Record<A["_tag"], true>>
): Data.TaggedEnum.Constructor<A> => {
  const maker = Data.taggedEnum<A>() as Readonly<Record<string, unknown>>
  const made = ["$is", "$match", ...Object.keys(tags)].map((name) => [name, maker[name]])
  return Object.fromEntries(made) as Data.TaggedEnum.Constructor<A>
}
