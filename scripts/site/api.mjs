// The reference of the API as Markdown: every name that programs can import, from the declarations of the package.
import { dirname, join } from "node:path"
import { anchors } from "./links.mjs"
import { root } from "./markdown.mjs"
import { tool } from "./tools.mjs"

const ts = await tool("typescript")

/** What each entry point of package.json is for. */
const purposes = {
  ".": "Programs with Effect.",
  "./client": "Programs with promises.",
  "./codec": "Seals payloads, results and other values before they are stored.",
  "./serverless": "Functions that run jobs which a worker sends to them.",
  "./testing": "Tests of programs with promises, on virtual time and without a database.",
  "./effect/testing": "Tests of programs with Effect, the simulation, and an emulator of Telegram.",
  "./workflow": "Workflows of `@effect/workflow`."
}

/** Reads declarations without those of other packages: their types are shown by name, so they need not be known. */
const programOf = (files) => {
  const options = { module: ts.ModuleKind.NodeNext, noLib: true, types: [] }
  const host = ts.createCompilerHost(options)
  const fileOf = (name, from) => join(dirname(from), name.replace(/\.js$/, ".d.ts"))
  host.resolveModuleNameLiterals = (names, from) =>
    names.map(({ text }) => ({
      resolvedModule: text.startsWith(".")
        ? { resolvedFileName: fileOf(text, from), extension: ts.Extension.Dts }
        : undefined
    }))
  return ts.createProgram(files, options, host)
}

/** Names what a class extends, for which the compiler declares a constant with a name like Job_base. */
const withBase = (text, file) => {
  const [, name] = /extends (\w+_base)\b/.exec(text) ?? []
  if (name === undefined) return text
  const statements = file.statements.filter(ts.isVariableStatement)
  const declared = statements.flatMap(({ declarationList }) => [...declarationList.declarations])
  const base = declared.find((one) => one.name.text === name).type.getText()
  const [, made] = /^new <[\s\S]*?=> (\w+)/.exec(base) ?? []
  const [, tag] = /readonly _tag: ("\w+")/.exec(base) ?? []
  return text.replace(name, () => (made === undefined ? base : tag === undefined ? made : `Data.TaggedError(${tag})`))
}

/** A declaration as users write types: without private members, semicolons and the files of other types. */
const textOf = (declaration) =>
  withBase(
    (ts.isVariableDeclaration(declaration) ? declaration.parent.parent : declaration).getText(),
    declaration.getSourceFile()
  )
    .replace(/^export (declare )?/, "")
    .replace(/^ +(private .*|#private;)\n/gm, "")
    .replace(/import\("[^"]+"\)\./g, "")
    .replace(/^( +(?:readonly )?\w+\?: .*) \| undefined;$/gm, "$1")
    .replace(/;$/gm, "")
    .replace(/^ +/gm, (indent) => indent.slice(Math.floor(indent.length / 2)))

const plain = (parts) => ts.displayPartsToString(parts).replace(/\{@link ([^}]+)\}/g, "`$1`")

const groups = ["Functions and values", "Services and classes", "Types", "Errors", "From other packages"]
const groupOf = (text) => {
  if (text.startsWith("export ")) return "From other packages"
  if (/^class (\w+Error|\w+ extends [\w.]*Error(Class)?)\b/.test(text)) return "Errors"
  if (/^(abstract )?class /.test(text)) return "Services and classes"
  return /^(const|function) /m.test(text) ? "Functions and values" : "Types"
}

/** The exports of a module: namespaces with their modules, and everything else with its text. */
const exportsOf = (checker, module) =>
  checker
    .getExportsOfModule(module)
    .map((symbol) => {
      const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
      const { declarations } = target
      const { parent } = symbol.declarations[0]
      const statement = ts.isExportDeclaration(parent) ? parent : (parent.parent ?? parent)
      const above = ts.getJSDocCommentsAndTags(statement).map(({ comment }) => ts.getTextOfJSDocComment(comment))
      const tags = target.getJsDocTags(checker)
      const tagged = (name) => tags.filter((tag) => tag.name === name).map(({ text }) => plain(text))
      const comment = [plain(target.getDocumentationComment(checker)) || above.join("\n")]
      for (const text of tagged("deprecated")) comment.push(`**Deprecated.** ${text}`)
      return {
        name: symbol.name,
        comment: comment.join("\n\n"),
        examples: tagged("example").join("\n\n"),
        module: ts.isExportDeclaration(parent) && declarations !== undefined ? target : undefined,
        text: declarations === undefined ? statement.getText() : declarations.map(textOf).join("\n\n")
      }
    })
    .sort((a, b) => a.name.localeCompare(b.name))

/** One page, and the addresses of its names. `above` are those of the page of the whole entry point. */
const pageOf = ({ above = [], exports, file, intro, prefix = "", title }) => {
  const anchor = anchors()
  anchor(title)
  const known = new Map(above)
  const grouped = groups.flatMap((name) => {
    const items = exports.filter(({ module, text }) => module === undefined && groupOf(text) === name)
    if (items.length > 0) anchor(name)
    for (const item of items) known.set(item.name, `${file}#${anchor(prefix + item.name)}`)
    return items.length === 0 ? [] : [{ items, name }]
  })
  const uses = ({ name, text }) => {
    const words = new Set(text.replace(/\/\*[\s\S]*?\*\/|"[^"]*"/g, "").match(/\b[A-Z]\w+/g))
    const found = [...words].filter((word) => word !== name && known.has(word))
    return found.length === 0 ? "" : `Uses ${found.map((word) => `[${word}](${known.get(word)})`).join(", ")}.`
  }
  const parts = grouped.flatMap(({ items, name }) => [
    `## ${name}`,
    ...items.flatMap((item) => [
      `### ${prefix}${item.name}`,
      item.comment,
      `\`\`\`ts\n${item.text}\n\`\`\``,
      uses(item),
      item.examples
    ])
  ])
  return { known, markdown: [`# ${title}`, intro, ...parts].filter((part) => part !== "").join("\n\n") }
}

/** Pages of the API by file, as if they were in docs/api, and their part of the navigation. */
export const api = (manifest) => {
  const entries = Object.entries(manifest.exports).filter(([, { types }]) => types !== undefined)
  const program = programOf(entries.map(([, { types }]) => join(root, types)))
  const checker = program.getTypeChecker()
  const pages = new Map()
  const parts = entries.map(([key, { types }]) => {
    const title = `nightshift${key.slice(1)}`
    const about = purposes[key]
    if (about === undefined) throw new Error(`scripts/site/api.mjs does not say what the entry point ${title} is for.`)
    const base = key === "." ? "effect" : key.slice(2).replaceAll("/", "-")
    const exports = exportsOf(checker, checker.getSymbolAtLocation(program.getSourceFile(join(root, types))))
    const inner = exports
      .filter(({ module }) => module !== undefined)
      .map((one) => ({ ...one, file: `${base}.${one.name}.md` }))
    const rows = inner.map(({ comment, file, name }) => `| [${name}](${file}) | ${comment.replaceAll("\n", " ")} |`)
    const table = rows.length === 0 ? [] : [["| namespace | what it has |", "| --- | --- |", ...rows].join("\n")]
    const page = pageOf({ exports, file: `${base}.md`, intro: [about, ...table].join("\n\n"), title })
    pages.set(`docs/api/${base}.md`, page.markdown)
    for (const { comment, file, module, name } of inner) {
      const intro = `${comment}\n\n\`\`\`ts\nimport { ${name} } from "${title}"\n\`\`\``
      const given = { above: page.known, exports: exportsOf(checker, module), file, intro, prefix: `${name}.` }
      pages.set(`docs/api/${file}`, pageOf({ ...given, title: `${name} of ${title}` }).markdown)
    }
    return { about, file: `${base}.md`, inner, title }
  })
  pages.set("docs/api/README.md", overview(parts))
  const item = (file, title) => ({ file: `docs/api/${file}`, page: `api/${file.replace(/md$/, "html")}`, title })
  const group = ({ file, inner, title }) => ({
    name: title,
    items: [item(file, title), ...inner.map((one) => item(one.file, one.name))]
  })
  const first = { ...item("README.md", "All references"), page: "api/index.html" }
  return { nav: { name: "API", groups: [{ name: "", items: [first] }, ...parts.map(group)] }, pages }
}

const overview = (parts) => `# API reference

Every name that programs can import, from the type declarations of the package. In comments, brackets hold the default of an option.

| import from | for | namespaces |
| --- | --- | --- |
${parts.map(({ about, file, inner, title }) => `| [${title}](${file}) | ${about} | ${inner.map((one) => `[${one.name}](${one.file})`).join(", ")} |`).join("\n")}

Other interfaces have their own pages: the [HTTP API](../operate/http-api.md), its [errors](../operate/errors.md) and its
[live events](../learn/events.md), the [SQL functions](../learn/sql.md), the [commands](../operate/commands.md), the
[settings](../operate/settings.md) and the [metrics](../operate/metrics.md).
`
