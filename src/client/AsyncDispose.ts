/// <reference lib="esnext.disposable" preserve="true" />

// `await using` needs this symbol. The first releases of Node 20 do not have it.
if (Symbol.asyncDispose === undefined) {
  Object.defineProperty(Symbol, "asyncDispose", { value: Symbol.for("nodejs.asyncDispose") })
}

export {}
