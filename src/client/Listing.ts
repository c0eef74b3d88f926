import { shown } from "../core/Storable.js"
import { pageLimits } from "../queue/search/JobSearch.js"
import { InvalidOptionError } from "./ShiftErrors.js"

/** Options of every list. */
export interface ListOptions {
  /** Maximum number of entries, of an iteration or of one page. [all of them; 50 per page, which has at most 1,000] */
  readonly limit?: number | undefined
}

/** One page of a list. */
export interface Page<out Item> {
  /** The entries, in the order of the list. */
  readonly items: ReadonlyArray<Item>
  /** Pass it to `page` to read the next page. Undefined on the last page. */
  readonly next: string | undefined
}

/**
 * A list that is read in pages while you iterate over it:
 *
 * for await (const job of shift.jobs.list({ state: "dead" })) console.log(job.id, job.lastError)
 *
 * It reads nothing before that, and every iteration starts again. If a page cannot be read, the iteration throws after the
 * entries of the pages before it, and `toArray` rejects. To continue from a page, use `page` and keep its `next`.
 */
export interface Listing<out Item> extends AsyncIterable<Item> {
  /** Reads one page: the first, or the one that follows the page with this `next`. */
  page(cursor?: string): Promise<Page<Item>>
  /** Reads all entries into an array. */
  toArray(): Promise<Array<Item>>
}

/** Size of the first page of an iteration, for loops that end early. The next ones double: each page costs several round trips. */
const firstPage = 100

type Read<Item> = (request: { readonly limit: number; readonly cursor: string | undefined }) => Promise<Page<Item>>

const checkLimit = (limit: unknown): void => {
  if (limit === undefined || (Number.isInteger(limit) && Number(limit) >= 1)) return
  throw new InvalidOptionError("limit", `limit must be a whole number of 1 or more, got ${shown(limit)}.`)
}

/** A list of the pages that `read` returns. @internal */
export const make = <Item>(read: Read<Item>, { limit }: ListOptions): Listing<Item> => {
  checkLimit(limit)
  const iterate = async function* (): AsyncGenerator<Item, void, undefined> {
    let left = limit ?? Number.POSITIVE_INFINITY
    let size = firstPage
    let cursor: string | undefined
    do {
      const page = await read({ limit: Math.min(left, size), cursor })
      yield* page.items
      size = Math.min(2 * size, pageLimits.max)
      left -= page.items.length
      cursor = page.next
    } while (cursor !== undefined && left > 0)
  }
  return {
    [Symbol.asyncIterator]: iterate,
    page: (cursor) => read({ limit: Math.min(limit ?? pageLimits.default, pageLimits.max), cursor }),
    toArray: async () => {
      const all: Array<Item> = []
      for await (const item of iterate()) all.push(item)
      return all
    }
  }
}
