import { Injectable, Module } from "@nestjs/common"
import { job, type Shift } from "nightshift/client"
import { z } from "zod"
import { type HasHandlers, InjectShift } from "./shift.module.js"

export const shipOrder = job("ship_order", { payload: z.object({ order: z.string() }), queue: "warehouse" })

@Injectable()
export class OrdersService {
  constructor(@InjectShift() private readonly shift: Shift) {}

  async place(order: string): Promise<string> {
    const { id } = await this.shift.enqueue(shipOrder, { order }, { dedupe: `ship:${order}` })
    return id
  }
}

@Injectable()
export class OrderHandlers implements HasHandlers {
  readonly shipped: Array<string> = []
  readonly handlers = [
    shipOrder.handle(async ({ order }) => {
      this.shipped.push(order)
      return { shipped: order }
    })
  ]
}

@Module({ providers: [OrdersService], exports: [OrdersService] })
export class OrdersModule {}
