// Prepares a browser for the page tests; run by `npm test`. Changes nothing outside its cache.
import { spawnSync } from "node:child_process"
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync
} from "node:fs"
import { dirname, join, relative } from "node:path"
import { fileURLToPath } from "node:url"
import { caches, chosen, inFolder, sources, starts, trusted } from "./chromium.mjs"

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const oneHour = 3_600_000

const run = (command, args, env = {}) => {
  const { error, status, stderr } = spawnSync(command, args, {
    cwd: root,
    encoding: "utf8",
    env: { ...process.env, LC_ALL: "C", ...env },
    stdio: ["ignore", "ignore", "pipe"]
  })
  if (error !== undefined) throw error
  if (status !== 0) throw new Error(`${command} failed: ${stderr.trim().split("\n").slice(-3).join(" ")}`)
}

const describe = (folder, executable, libraries) =>
  writeFileSync(join(folder, "chromium.json"), `${JSON.stringify({ executable, libraries })}\n`)

const named = (families) => families.map((family) => `<family>${family}</family>`).join("")
const alias = (family, preferred) => `  <alias>${named([family])}<prefer>${named(preferred)}</prefer></alias>`
const isNot = (family) => `<test name="family" qual="all" compare="not_eq"><string>${family}</string></test>`

// A self-contained fontconfig: without one, a bare machine maps every family to the first font found.
const describeFonts = (folder, fonts) =>
  writeFileSync(
    join(folder, "fonts.conf"),
    [
      '<?xml version="1.0"?>',
      '<!DOCTYPE fontconfig SYSTEM "fonts.dtd">',
      "<fontconfig>",
      `  <dir prefix="relative">${fonts}</dir>`,
      "  <dir>/usr/share/fonts</dir>",
      '  <cachedir prefix="xdg">fontconfig</cachedir>',
      `  <match>${["sans-serif", "serif", "monospace"].map(isNot).join("")}`,
      '    <edit name="family" mode="append_last"><string>sans-serif</string></edit></match>',
      alias("sans-serif", ["Open Sans", "Liberation Sans", "DejaVu Sans"]),
      alias("serif", ["Liberation Serif", "DejaVu Serif", "Open Sans"]),
      alias("monospace", ["Liberation Mono", "DejaVu Sans Mono", "Open Sans"]),
      "</fontconfig>",
      ""
    ].join("\n")
  )

const unpackNpm = (folder) => {
  // The package unpacks into the shared temporary folder with access for its user only, and adds libraries that a bare
  // machine lacks only if it detects AWS.
  const program = 'import chromium from "@sparticuz/chromium"; await chromium.executablePath()'
  run(process.execPath, ["--input-type=module", "--eval", program], {
    TMPDIR: folder,
    AWS_EXECUTION_ENV: "AWS_Lambda_nodejs20.x"
  })
  chmodSync(join(folder, "chromium"), 0o755)
  describeFonts(folder, "fonts/fonts")
  describe(folder, "chromium", [])
  if (!starts(inFolder(folder))) describe(folder, "chromium", ["al2023/lib"])
}

// The first font looks like common system fonts; the second has arrows, ticks and other symbols.
const debianPackages = ["chromium", "fonts-liberation", "fonts-dejavu-core"]

// Hooks are cleared because those of some systems clean up unrelated folders.
const aptConfiguration = (apt) =>
  [
    `Dir::State::lists "${apt}/lists";`,
    `Dir::Cache "${apt}";`,
    `Dir::Cache::archives "${apt}/archives";`,
    'APT::Sandbox::User "";',
    'APT::Install-Recommends "false";',
    'Acquire::Languages "none";',
    'Acquire::Retries "3";',
    'Debug::NoLocking "true";',
    "#clear APT::Update::Pre-Invoke;",
    "#clear APT::Update::Post-Invoke;",
    "#clear APT::Update::Post-Invoke-Success;",
    ""
  ].join("\n")

const foldersWithLibraries = (folder) => {
  const found = new Set()
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (/^lib.*\.so/.test(entry.name)) found.add(relative(folder, entry.parentPath ?? entry.path))
  }
  return [...found].sort()
}

const unpackDebian = (folder) => {
  const apt = join(folder, "apt")
  const configuration = join(apt, "apt.conf")
  const archives = join(apt, "archives")
  for (const each of [join(apt, "lists", "partial"), join(archives, "partial")]) mkdirSync(each, { recursive: true })
  writeFileSync(configuration, aptConfiguration(apt))
  run("apt-get", ["--config-file", configuration, "update"])
  run("apt-get", ["--config-file", configuration, "--yes", "--download-only", "install", ...debianPackages])
  for (const archive of readdirSync(archives)) {
    if (archive.endsWith(".deb")) run("dpkg-deb", ["--extract", join(archives, archive), folder])
  }
  rmSync(apt, { recursive: true, force: true })
  describeFonts(folder, "usr/share/fonts")
  describe(folder, "usr/lib/chromium/chromium", foldersWithLibraries(folder))
}

const makerOf = (name) => {
  if (name.startsWith("npm-")) return { unpack: unpackNpm, what: "unpacking the Chromium of node_modules" }
  if (name === "debian" && existsSync("/usr/bin/apt-get") && existsSync("/usr/bin/dpkg-deb")) {
    return { unpack: unpackDebian, what: "fetching Debian's Chromium (about 120 MB)" }
  }
  return undefined
}

const writableCache = () => {
  for (const cache of caches.filter(trusted)) {
    try {
      mkdirSync(cache, { recursive: true })
      return { cache, workshop: mkdtempSync(join(cache, "making-")) }
    } catch {}
  }
  throw new Error(`neither ${caches.join(" nor ")} is writable`)
}

const sweepAbandoned = (cache) => {
  for (const name of readdirSync(cache).filter((each) => each.startsWith("making-"))) {
    const abandoned = join(cache, name)
    if (statSync(abandoned, { throwIfNoEntry: false })?.mtimeMs < Date.now() - oneHour) {
      rmSync(abandoned, { recursive: true, force: true })
    }
  }
}

// Publishes the browser atomically. Of two concurrent runs the first to finish wins, and the other uses its browser.
const publish = (workshop, folder, source) => {
  if (source.find() !== undefined) return
  if (existsSync(folder)) renameSync(folder, join(workshop, "replaced"))
  chmodSync(workshop, 0o755)
  try {
    renameSync(workshop, folder)
  } catch (error) {
    if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error
  }
  rmSync(join(folder, "replaced"), { recursive: true, force: true })
}

const make = (source, { unpack, what }) => {
  console.log(`Preparing a browser for the page tests, once: ${what}`)
  const { cache, workshop } = writableCache()
  try {
    sweepAbandoned(cache)
    unpack(workshop)
    if (!starts(inFolder(workshop))) throw new Error("it does not start on this machine")
    publish(workshop, join(cache, source.name), source)
  } finally {
    rmSync(workshop, { recursive: true, force: true })
  }
}

/** Returns why there is no browser, or undefined if there is one. */
const prepare = () => {
  if (chosen() !== undefined) return undefined
  const failures = []
  for (const source of sources) {
    if (source.find() !== undefined) return undefined
    const maker = makerOf(source.name)
    if (maker === undefined) continue
    try {
      make(source, maker)
      return undefined
    } catch (error) {
      failures.push(`${maker.what} failed: ${error.message}`)
    }
  }
  return `No browser for the page tests: ${failures.length > 0 ? failures.join("; ") : "none is installed"}`
}

const refuse = (reason) => {
  console.error(`${reason}. Set CHROMIUM_PATH to a Chromium or Chrome.`)
  process.exit(1)
}

try {
  const missing = prepare()
  if (missing !== undefined) refuse(missing)
} catch (error) {
  refuse(error.message)
}
