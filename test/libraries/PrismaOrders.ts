import { PrismaPg } from "@prisma/adapter-pg"
import * as runtime from "@prisma/client/runtime/client"

// What `prisma generate` writes for a schema without models, by hand: the generator downloads a binary, and the client that it
// makes needs none. The client, its query compiler and its adapter for pg are Prisma's own.

/** Node has it, and the library of types that this project compiles with does not. */
const { Module } = (globalThis as unknown as { WebAssembly: { Module: new (bytes: Uint8Array) => object } }).WebAssembly

const config: runtime.GetPrismaClientConfig = {
  previewFeatures: [],
  clientVersion: "7.10.0",
  engineVersion: "0edf323efd1d98336f3f0a68684b56f689b900d3",
  activeProvider: "postgresql",
  inlineSchema:
    'generator client {\n  provider = "prisma-client"\n}\n\ndatasource db {\n  provider = "postgresql"\n}\n',
  runtimeDataModel: { models: {}, enums: {}, types: {} },
  parameterizationSchema: { strings: [], graph: "AAAA" },
  compilerWasm: {
    getRuntime: () => import("@prisma/client/runtime/query_compiler_fast_bg.postgresql.mjs" as string),
    getQueryCompilerWasmModule: async () => {
      const { wasm } = await import(
        "@prisma/client/runtime/query_compiler_fast_bg.postgresql.wasm-base64.mjs" as string
      )
      return new Module(Buffer.from(wasm, "base64"))
    },
    importName: "./query_compiler_fast_bg.js"
  }
} as unknown as runtime.GetPrismaClientConfig

/** What Prisma hands to a transaction callback, as its generated types have it. */
export interface PrismaTransaction {
  readonly $executeRawUnsafe: (query: string, ...values: ReadonlyArray<unknown>) => Promise<number>
  readonly $queryRawUnsafe: <T = unknown>(query: string, ...values: ReadonlyArray<unknown>) => Promise<T>
}

export interface PrismaOrders extends PrismaTransaction {
  readonly $transaction: <T>(body: (tx: PrismaTransaction) => Promise<T>) => Promise<T>
  readonly $disconnect: () => Promise<void>
}

export const make = (connectionString: string): PrismaOrders => {
  const Client = runtime.getPrismaClient(config) as unknown as new (options: object) => PrismaOrders
  return new Client({ adapter: new PrismaPg({ connectionString, max: 2 }) })
}
