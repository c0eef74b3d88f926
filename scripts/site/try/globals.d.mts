export declare const Buffer: {
  readonly from: (text: string) => Uint8Array
  readonly compare: (left: Uint8Array, right: Uint8Array) => number
}
