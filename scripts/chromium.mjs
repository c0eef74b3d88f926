// Finds the browser for the page tests. Used by the tests and by prepare-browser.mjs, which installs one if there is
// none.
import { spawnSync } from "node:child_process"
import { accessSync, constants, existsSync, lstatSync, readFileSync, statSync } from "node:fs"
import { homedir, tmpdir } from "node:os"
import { delimiter, dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** Cache folders of unpacked browsers: in the project, or per user if the project is not writable. */
export const caches = [
  join(root, "node_modules", ".cache", "nightshift-chromium"),
  join(process.env.CHROMIUM_CACHE ?? tmpdir(), `nightshift-chromium-${process.getuid?.() ?? "user"}`)
]

/** Whether a cache is safe to run programs from: another user could have created the per-user folder first. */
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

/** Whether a browser starts: it may be installed on a machine that lacks its libraries. */
export const starts = ({ env, executable }) =>
  isProgram(executable) &&
  spawnSync(executable, ["--version"], { env: { ...process.env, ...env }, stdio: "ignore", timeout: 30_000 }).status ===
    0

/**
 * Returns the browser described by a folder's chromium.json. Its paths are relative, so that the folder can be moved.
 */
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

/** Browser sources, best first. The npm package contains a binary for this platform only. */
export const sources = [
  ...(process.platform === "linux" && process.arch === "x64"
    ? [{ name: `npm-${npmVersion()}`, find: () => unpacked(`npm-${npmVersion()}`) }]
    : []),
  { name: "installed", find: installed },
  ...(process.platform === "linux" ? [{ name: "debian", find: () => unpacked("debian") }] : [])
]

/** Returns the browser in CHROMIUM_PATH, or undefined if unset. Throws if it cannot be used. */
export const chosen = () => {
  const executable = process.env.CHROMIUM_PATH
  if (!executable) return undefined
  const browser = { executable, env: {} }
  if (!isProgram(executable)) throw new Error(`CHROMIUM_PATH is ${executable}, which is not an executable file`)
  if (!starts(browser)) throw new Error(`CHROMIUM_PATH is ${executable}, which does not answer to --version`)
  return browser
}

/** Returns the browser to test with, if one is ready. */
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
 * Launch options that behave the same on every machine. Only the time zone is taken from the caller's environment:
 * LANG=C changes navigator.language to `en-US@posix`, and LANGUAGE=en_US makes the npm Chromium exit with SIGTRAP.
 * `home` is an empty folder: the user's home may be missing or read-only.
 */
export const launchOptions = ({ env, executable }, home) => ({
  executablePath: executable,
  // Playwright adds the rest: headless, no sandbox, a temporary profile, no telemetry.
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
