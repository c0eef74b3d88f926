// Finds the browser of the page tests. Both prepare-browser.mjs, which makes one when there is none, and the tests ask here.
import { spawnSync } from "node:child_process"
import { accessSync, constants, existsSync, lstatSync, readFileSync, statSync } from "node:fs"
import { homedir, tmpdir } from "node:os"
import { delimiter, dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** Where unpacked browsers are kept: with the project, or with the user when the project is somebody else's. */
export const caches = [
  join(root, "node_modules", ".cache", "nightshift-chromium"),
  join(process.env.CHROMIUM_CACHE ?? tmpdir(), `nightshift-chromium-${process.getuid?.() ?? "user"}`)
]

/** Whether programs may be run from a cache: the second has a name that anybody could have taken first. */
export const trusted = (cache) =>
  cache === caches[0] || !existsSync(cache) || lstatSync(cache).uid === (process.getuid?.() ?? lstatSync(cache).uid)

const isProgram = (file) => {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}

/** Whether a browser starts at all: on a machine that lacks its libraries it is there and does not. */
export const starts = ({ env, executable }) =>
  isProgram(executable) &&
  spawnSync(executable, ["--version"], { env: { ...process.env, ...env }, stdio: "ignore", timeout: 30_000 }).status ===
    0

/** The browser described by the chromium.json of a folder; its paths are relative, so that the folder can be moved. */
export const inFolder = (folder) => {
  const description = join(folder, "chromium.json")
  if (!existsSync(description)) return undefined
  const { executable, libraries } = JSON.parse(readFileSync(description, "utf8"))
  const inherited = process.env.LD_LIBRARY_PATH
  const searched = [...libraries.map((library) => join(folder, library)), ...(inherited ? [inherited] : [])]
  return {
    executable: join(folder, executable),
    env: {
      FONTCONFIG_FILE: join(folder, "fonts.conf"),
      ...(searched.length > 0 ? { LD_LIBRARY_PATH: searched.join(delimiter) } : {})
    }
  }
}

const unpacked = (name) =>
  caches
    .filter(trusted)
    .map((cache) => inFolder(join(cache, name)))
    .find((browser) => browser !== undefined && starts(browser))

const installed = () => {
  const places =
    process.platform === "darwin"
      ? ["/Applications", join(homedir(), "Applications")].flatMap((folder) =>
          ["Google Chrome", "Chromium"].map((name) => join(folder, `${name}.app`, "Contents", "MacOS", name))
        )
      : ["/usr/bin", "/usr/local/bin", "/opt/google/chrome", "/snap/bin"].flatMap((folder) =>
          ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"].map((name) =>
            join(folder, name)
          )
        )
  return places.map((executable) => ({ executable, env: {} })).find(starts)
}

const npmVersion = () =>
  JSON.parse(readFileSync(join(root, "node_modules", "@sparticuz", "chromium", "package.json"), "utf8")).version

/** The kinds of browser we know, best first. The npm package carries a program for this one kind of machine only. */
export const sources = [
  ...(process.platform === "linux" && process.arch === "x64"
    ? [{ name: `npm-${npmVersion()}`, find: () => unpacked(`npm-${npmVersion()}`) }]
    : []),
  { name: "installed", find: installed },
  ...(process.platform === "linux" ? [{ name: "debian", find: () => unpacked("debian") }] : [])
]

/** The browser CHROMIUM_PATH names, or undefined when it names none. One that cannot be used is an error, never passed over. */
export const chosen = () => {
  const executable = process.env.CHROMIUM_PATH
  if (!executable) return undefined
  const browser = { executable, env: {} }
  if (!isProgram(executable)) throw new Error(`CHROMIUM_PATH is ${executable}, which is not an executable file`)
  if (!starts(browser)) throw new Error(`CHROMIUM_PATH is ${executable}, which does not answer to --version`)
  return browser
}

/** The browser to test with, if this machine has one ready. */
export const findChromium = () => {
  const browser = chosen()
  if (browser !== undefined) return browser
  for (const source of sources) {
    const found = source.find()
    if (found !== undefined) return found
  }
  return undefined
}

/**
 * How to start a browser so that it behaves the same on every machine. Of the caller's environment only the time zone is
 * passed on: LANG=C changes navigator.language to `en-US@posix`, and LANGUAGE=en_US ends the Chromium of npm with SIGTRAP.
 * `home` is an empty folder: the user's own may be missing or read-only.
 */
export const launchOptions = ({ env, executable }, home) => ({
  executablePath: executable,
  // Playwright adds the rest: headless, no sandbox, a profile in a temporary folder, no calls home.
  args: ["--disable-gpu", "--disable-quic", "--font-render-hinting=none", "--lang=en-US"],
  env: {
    PATH: process.env.PATH ?? "/usr/bin:/bin",
    ...(process.env.TZ === undefined ? {} : { TZ: process.env.TZ }),
    ...env,
    LANG: "en_US.UTF-8",
    HOME: home,
    TMPDIR: home,
    XDG_CACHE_HOME: home,
    XDG_CONFIG_HOME: home
  }
})
