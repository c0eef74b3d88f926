// All chance comes from one number. A draw that has a name is the same whatever else is drawn: a plan from which a step was
// taken away draws the rest of its faults as before.

/** Mixes a word so that near ones come out far apart. */
const mixed = (word: number): number => {
  let mix = word
  mix = Math.imul(mix ^ (mix >>> 16), 0x85eb_ca6b)
  mix = Math.imul(mix ^ (mix >>> 13), 0xc2b2_ae35)
  return (mix ^ (mix >>> 16)) >>> 0
}

/** A 32-bit digest of a text (FNV-1a), to tell texts apart and to draw by their name. */
export const digest = (text: string, from = 0x811c_9dc5): number => {
  let hash = from
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x0100_0193)
  }
  return hash >>> 0
}

/** A number from 0 to 1 that belongs to a name. */
export const drawn = (seed: number, name: string): number => mixed(digest(name, mixed(seed))) / 0x1_0000_0000

/** One draw after the other. */
export class Dice {
  private count = 0

  constructor(private readonly seed: number) {}

  /** From 0 to 1. */
  next(): number {
    this.count = (this.count + 0x9e37_79b9) >>> 0
    return mixed(this.count ^ mixed(this.seed)) / 0x1_0000_0000
  }

  isLucky(share: number): boolean {
    return this.next() < share
  }

  /** A whole number from `least` to `most`. */
  whole(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1))
  }

  pick<A>(first: A, ...others: ReadonlyArray<A>): A {
    return [first, ...others][this.whole(0, others.length)] ?? first
  }
}
