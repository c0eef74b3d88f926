// Deterministic random numbers from one seed. A named draw does not depend on other draws, so removing a step from a
// plan does not change the remaining faults.

/** Mixes the bits of a word (MurmurHash3 finalizer). */
const mixed = (word: number): number => {
  let mix = word
  mix = Math.imul(mix ^ (mix >>> 16), 0x85eb_ca6b)
  mix = Math.imul(mix ^ (mix >>> 13), 0xc2b2_ae35)
  return (mix ^ (mix >>> 16)) >>> 0
}

/** Returns a 32-bit FNV-1a hash of a text. */
export const digest = (text: string, from = 0x811c_9dc5): number => {
  let hash = from
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x0100_0193)
  }
  return hash >>> 0
}

/** Returns a random number from 0 to 1 for a name. */
export const drawn = (seed: number, name: string): number => mixed(digest(name, mixed(seed))) / 0x1_0000_0000

/** A sequential random generator. */
export class Dice {
  private count = 0

  constructor(private readonly seed: number) {}

  /** Returns a number from 0 to 1. */
  next(): number {
    this.count = (this.count + 0x9e37_79b9) >>> 0
    return mixed(this.count ^ mixed(this.seed)) / 0x1_0000_0000
  }

  chance(share: number): boolean {
    return this.next() < share
  }

  /** Returns an integer from `least` to `most`. */
  whole(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1))
  }

  pick<A>(first: A, ...others: ReadonlyArray<A>): A {
    return [first, ...others][this.whole(0, others.length)] ?? first
  }
}
