import "reflect-metadata"
import { Module } from "@nestjs/common"
import { NestFactory } from "@nestjs/core"
import { OrderHandlers, OrdersModule, OrdersService } from "./orders.js"
import { ShiftModule } from "./shift.module.js"

@Module({ imports: [ShiftModule.forRoot(process.env.DATABASE_URL), ShiftModule.worker(OrderHandlers), OrdersModule] })
class AppModule {}

const app = await NestFactory.createApplicationContext(AppModule)
// SIGTERM closes the shift, which lets running jobs finish.
app.enableShutdownHooks()
console.log("placed as job", await app.get(OrdersService).place("A-17"))
