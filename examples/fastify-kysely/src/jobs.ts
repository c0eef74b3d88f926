import { job } from "nightshift/client"
import { z } from "zod"

export const resizeImage = job("resize_image", {
  payload: z.object({ imageId: z.number().int(), width: z.number().int().max(4096) }),
  result: z.object({ bytes: z.number() }),
  queue: "images"
})
