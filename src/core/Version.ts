import { Option, Order } from "effect"

/** A parsed `major.minor.patch` version of this package. */
export interface Version {
  readonly text: string
  readonly parts: readonly [number, number, number]
}

export const parse = (text: string): Option.Option<Version> => {
  const match = /^(\d+)\.(\d+)\.(\d+)$/.exec(text.trim())
  if (match === null) return Option.none()
  const [, major, minor, patch] = match
  return Option.some({ text: text.trim(), parts: [Number(major), Number(minor), Number(patch)] })
}

export const order: Order.Order<Version> = Order.mapInput(
  Order.tuple(Order.number, Order.number, Order.number),
  (version) => version.parts
)
