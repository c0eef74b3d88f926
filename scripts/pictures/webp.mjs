// Makes an animated WebP of screenshots. The browser compares and encodes frames; this file joins them
// (https://developers.google.com/speed/webp/docs/riff_container).

const chunk = (name, data) => {
  const head = Buffer.alloc(8)
  head.write(name, "ascii")
  head.writeUInt32LE(data.length, 4)
  return Buffer.concat([head, data, Buffer.alloc(data.length % 2)])
}

const uint24 = (...values) => {
  const data = Buffer.alloc(values.length * 3)
  for (const [at, value] of values.entries()) data.writeUIntLE(value, at * 3, 3)
  return data
}

/** The chunk with the image of a WebP file. The browser may put a colour profile before it. */
const imageOf = (file) => {
  for (let at = 12; at < file.length; ) {
    const name = file.toString("ascii", at, at + 4)
    const end = at + 8 + file.readUInt32LE(at + 4)
    if (name === "VP8 ") return file.subarray(at, end + (end % 2))
    if (name === "ALPH" || name === "VP8L") break
    at = end + (end % 2)
  }
  throw new Error("The browser did not encode a frame as a lossy image without alpha.")
}

/** One file of frames, each with its file, its place, its size and its duration in milliseconds. Plays for ever. */
const animationOf = (width, height, frames) => {
  const isAnimated = Buffer.from([0x02, 0, 0, 0])
  const parts = [
    chunk("VP8X", Buffer.concat([isAnimated, uint24(width - 1, height - 1)])),
    chunk("ANIM", Buffer.alloc(6)),
    ...frames.map(({ duration, file, h, w, x, y }) =>
      chunk(
        "ANMF",
        // The last byte: do not blend, do not clear.
        Buffer.concat([uint24(x / 2, y / 2, w - 1, h - 1, duration), Buffer.from([0x02]), imageOf(file)])
      )
    )
  ]
  const body = Buffer.concat([Buffer.from("WEBP", "ascii"), ...parts])
  const head = Buffer.alloc(8)
  head.write("RIFF", "ascii")
  head.writeUInt32LE(body.length, 4)
  return Buffer.concat([head, body])
}

/** Runs in the browser: the part of a picture that differs from the previous one, as WebP, or undefined if there is none. */
const changed = async ({ png, quality }) => {
  const state = globalThis.film ?? { previous: undefined }
  globalThis.film = state
  const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob())
  const { height, width } = bitmap
  const canvas = new OffscreenCanvas(width, height)
  const context = canvas.getContext("2d", { alpha: false, willReadFrequently: true })
  context.drawImage(bitmap, 0, 0)
  const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer)
  let [left, top, right, bottom] = state.previous === undefined ? [0, 0, width, height] : [width, height, 0, 0]
  if (state.previous !== undefined) {
    for (let at = 0; at < pixels.length; at += 1) {
      if (pixels[at] === state.previous[at]) continue
      const x = at % width
      const y = Math.floor(at / width)
      if (x < left) left = x
      if (x >= right) right = x + 1
      if (y < top) top = y
      if (y >= bottom) bottom = y + 1
    }
  }
  state.previous = pixels
  if (right <= left) return undefined
  // Places of frames are even numbers.
  left -= left % 2
  top -= top % 2
  const part = new OffscreenCanvas(right - left, bottom - top)
  part.getContext("2d", { alpha: false }).drawImage(bitmap, -left, -top)
  const bytes = new Uint8Array(await (await part.convertToBlob({ type: "image/webp", quality })).arrayBuffer())
  const file = btoa(bytes.reduce((text, byte) => text + String.fromCharCode(byte), ""))
  return { x: left, y: top, w: part.width, h: part.height, file }
}

/** An animated WebP of PNG files, each shown for its duration in milliseconds. `page` is an empty page of a browser. */
export const animate = async (page, shots, { height, quality = 0.8, width }) => {
  const frames = []
  for (const { duration, png } of shots) {
    const part = await page.evaluate(changed, { png: png.toString("base64"), quality })
    if (part === undefined) frames.at(-1).duration += duration
    else frames.push({ ...part, duration, file: Buffer.from(part.file, "base64") })
  }
  return { file: animationOf(width, height, frames), frames: frames.length }
}
