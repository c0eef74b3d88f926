import { Data } from "effect"

/**
 * The constructors of a tagged enum, each made once. Effect's own `taggedEnum` makes a constructor anew whenever one is named,
 * and some are named for every job. `tags` are all of them; the type sees to that.
 */
export const taggedEnum = <A extends { readonly _tag: string }>(
  tags: Readonly<Record<A["_tag"], true>>
): Data.TaggedEnum.Constructor<A> => {
  const maker = Data.taggedEnum<A>() as Readonly<Record<string, unknown>>
  const made = ["$is", "$match", ...Object.keys(tags)].map((name) => [name, maker[name]])
  return Object.fromEntries(made) as Data.TaggedEnum.Constructor<A>
}
