// The command line in one file starts three times faster than the package's modules one by one. It carries its own copy
// of Effect, though, so a process that loads the user's module runs the library build, whose Effect is the user's.
const loadsUserModule = process.argv.some((argument) => argument === "--app" || argument.startsWith("--app="))

if (loadsUserModule) await import(new URL("./main.js", import.meta.url).href)
else await import("./main.js")
