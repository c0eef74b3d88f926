import { join, relative } from "node:path"
import { type Node, SyntaxKind } from "typescript/unstable/ast"
import {
  API,
  type NodeHandle,
  type Project,
  SignatureKind,
  type Symbol,
  SymbolFlags,
  type Type
} from "typescript/unstable/sync"
import { root } from "./Nightshift.js"

// Asks the compiler what editors show about the package. TypeScript 7 calls this API unstable: a new version may need
// changes here.

/** A name that programs can import, or a member of a type with such a name. */
export interface PublicName {
  /** As programs write it: `Job.make`, `ConnectOptions.pool`. */
  readonly name: string
  /** File and line of its declaration. */
  readonly place: string
  /** The doc comment that editors show, without tags. */
  readonly comment: string
  /** Code in `@example` tags. */
  readonly examples: ReadonlyArray<string>
}

const src = join(root, "src/")

/** Effect declares members too, such as `Tag.of` and `_tag` of errors. They are documented there. */
const isOurs = ({ path }: NodeHandle) => path.startsWith(src)

/** Private members are not for programs, and what overrides a member means the same as it: `message` of an error. */
const silent: ReadonlySet<SyntaxKind> = new Set([SyntaxKind.PrivateKeyword, SyntaxKind.OverrideKeyword])

const isSilent = (node: Node & { readonly modifiers?: ReadonlyArray<Node> }) =>
  node.modifiers?.some(({ kind }) => silent.has(kind)) ?? false

const memberKinds: ReadonlySet<SyntaxKind> = new Set([SyntaxKind.PropertySignature, SyntaxKind.MethodSignature])

/** Members of type literals in a declaration, at any depth: those of inline options, for example. */
const literalMembers = (declaration: Node): ReadonlyArray<Node> => {
  const found: Array<Node> = []
  const visit = (node: Node): void => {
    if (node.kind === SyntaxKind.Block) return
    if (memberKinds.has(node.kind)) found.push(node)
    node.forEachChild(visit)
  }
  declaration.forEachChild(visit)
  return found
}

/** The node that has the doc comment of a declaration: of a variable and of `export * as X from` it is the statement. */
const hostOf = (node: Node): Node => {
  if (node.kind === SyntaxKind.NamespaceExport) return node.parent
  const isInner = node.kind === SyntaxKind.VariableDeclaration || node.kind === SyntaxKind.ExportSpecifier
  return isInner ? node.parent.parent : node
}

/** The text of the doc comments of a declaration. Line comments in front of them are left out. */
const docsOf = (node: Node): string =>
  (hostOf(node).jsDoc ?? [])
    .map((comment) => comment.getText())
    .map((text) => text.slice(text.indexOf("/**")).replace(/^[ \t]*\/?\*+\/? ?|\*\/$/gm, ""))
    .join("\n")

/** `[asyncDispose]` instead of the compiler's name of a symbol. */
const nameOf = (name: string) => name.replace(/__@(\w+)@\d+$/, "[$1]")

class Reader {
  readonly found = new Map<string, PublicName>()
  readonly #functions = new Map<string, Symbol>()
  readonly #visited = new Set<number>()

  constructor(readonly project: Project) {}

  entry(file: string): void {
    const { checker, program } = this.project
    const source = program.getSourceFile(file)
    const module = source === undefined ? undefined : checker.getSymbolAtLocation(source)
    if (module === undefined) throw new Error(`${file} is not a module of the project.`)
    this.#exportsOf(module, "")
  }

  #exportsOf(module: Symbol, prefix: string): void {
    const { checker } = this.project
    for (const exported of checker.getExportsOfModule(module)) {
      const name = `${prefix}${exported.name}`
      const isAlias = (exported.flags & SymbolFlags.Alias) !== 0
      const target = isAlias ? checker.getAliasedSymbol(exported) : exported
      const isModule = target.declarations.some(({ kind }) => kind === SyntaxKind.SourceFile)
      const isDeclaredHere = !isModule && target.declarations.some(isOurs)
      this.#add(name, isDeclaredHere ? target : exported)
      if (!target.declarations.some(isOurs) || this.#visited.has(target.id)) continue
      this.#visited.add(target.id)
      if (isModule) this.#exportsOf(target, `${name}.`)
      else this.#membersOf(name, target)
    }
  }

  #membersOf(owner: string, symbol: Symbol): void {
    const { checker } = this.project
    if ((symbol.flags & SymbolFlags.Type) !== 0) this.#properties(owner, checker.getDeclaredTypeOfSymbol(symbol))
    if ((symbol.flags & SymbolFlags.Class) !== 0)
      for (const member of symbol.getExports().values()) this.#add(`${owner}.${member.name}`, member)
    if ((symbol.flags & (SymbolFlags.Variable | SymbolFlags.Function)) !== 0) this.#functions.set(owner, symbol)
    const nodes = symbol.declarations.flatMap((handle) => {
      const node = handle.resolve(this.project)
      return node === undefined ? [] : literalMembers(node)
    })
    const names = nodes.map((node) => (node as Node & { readonly name: Node }).name)
    for (const member of checker.getSymbolAtLocation(names))
      if (member !== undefined) this.#add(`${owner}.${member.name}`, member)
  }

  /** Adds the options of functions whose type has no public name. */
  options(): void {
    const { checker } = this.project
    for (const [name, symbol] of this.#functions) {
      const type = checker.getTypeOfSymbol(symbol)
      for (const signature of type === undefined ? [] : checker.getSignaturesOfType(type, SignatureKind.Call))
        for (const parameter of checker.getTypeOfSymbol(signature.getParameters()))
          if (parameter !== undefined) this.#properties(name, parameter)
    }
  }

  /** Own and inherited properties. In a union those of every alternative, except classes, which have their own names. */
  #properties(owner: string, type: Type): void {
    if (type.isUnionType()) {
      for (const each of type.getTypes())
        if (((each.getSymbol()?.flags ?? 0) & SymbolFlags.Class) === 0) this.#properties(owner, each)
    } else {
      for (const property of this.project.checker.getPropertiesOfType(type))
        this.#add(`${owner}.${property.name}`, property)
    }
  }

  #add(name: string, symbol: Symbol): void {
    const ours = symbol.declarations.filter(isOurs)
    // A member that several types inherit is listed once.
    const key = `${ours[0]?.path}#${ours[0]?.index}`
    if (this.found.has(key)) return
    const nodes = ours.flatMap((handle) => handle.resolve(this.project) ?? [])
    const [node] = nodes
    if (node === undefined || isSilent(node)) return
    const file = node.getSourceFile()
    const line = file.text.slice(0, node.getStart()).split("\n").length
    const docs = nodes.map(docsOf)
    // A value and a type of the same name share a comment. Of overloads each has its own.
    const isBare = nodes.some(({ kind }, place) => kind === SyntaxKind.MethodSignature && docs[place] === "")
    const [comment = "", ...tags] = isBare ? [] : docs.join("\n").split(/^@/m)
    const examples = tags.flatMap((tag) => (tag.startsWith("example\n") ? [tag.slice("example\n".length)] : []))
    const place = `${relative(root, file.fileName)}:${line}`
    this.found.set(key, { name: nameOf(name), place, comment: comment.trim(), examples })
  }
}

/** All public names of the modules from which the build makes the package's types, with their members. */
export const publicNames = (): ReadonlyArray<PublicName> => {
  const api = new API({ cwd: root })
  try {
    const config = join(root, "tsconfig.build.json")
    const [project] = api.updateSnapshot({ openProjects: [config] }).getProjects()
    if (project === undefined) throw new Error(`${config} is not a project.`)
    const reader = new Reader(project)
    for (const entry of project.rootFiles) reader.entry(entry)
    reader.options()
    return [...reader.found.values()]
  } finally {
    api.close()
  }
}
