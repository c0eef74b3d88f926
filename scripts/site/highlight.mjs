// Colours code by regular expressions: comments, strings, numbers, keywords, types and calls. Enough for the short
// blocks of the documentation, and small.

export const escape = (text) =>
  text.replace(/[&<>"]/g, (char) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[char])

const words = (list) => `\\b(?:${list.split(" ").join("|")})\\b`

const script = [
  ["c", "//[^\\n]*|/\\*[\\s\\S]*?\\*/"],
  ["s", "\"(?:\\\\.|[^\"\\\\\\n])*\"|'(?:\\\\.|[^'\\\\\\n])*'|`(?:\\\\.|[^`\\\\])*`"],
  ["n", "\\b\\d[\\d_.]*n?\\b"],
  [
    "k",
    words(
      "as async await break case catch class const continue declare default delete do else export extends false finally for from function if implements import in instanceof interface let new null of readonly return satisfies static super switch this throw true try type typeof undefined using void while yield"
    )
  ],
  ["f", "\\b[a-z_$][\\w$]*(?=\\()"],
  ["t", "\\b[A-Z][\\w$]*"]
]
const quoted = ["s", "\"(?:\\\\.|[^\"\\\\])*\"|'(?:''|[^'])*'"]
const hash = ["c", "(?<![^\\s])#[^\\n]*"]

const grammars = {
  ts: script,
  js: script,
  json: [["t", '"(?:\\\\.|[^"\\\\])*"(?=\\s*:)'], quoted, ["n", "-?\\b\\d[\\d.]*\\b"], ["k", words("true false null")]],
  sql: [
    ["c", "--[^\\n]*"],
    ["s", "'(?:''|[^'])*'|\\$\\$[\\s\\S]*?\\$\\$"],
    ["n", "\\b\\d[\\d.]*\\b"],
    [
      "k",
      words(
        "after alter and as begin by commit create delete each execute for from function grant group in insert into is language limit new not null on or order procedure replace return returns revoke row schema select set table to trigger update usage values where with"
      )
    ],
    ["f", "\\b[a-z_]\\w*(?=\\()"]
  ],
  sh: [
    hash,
    quoted,
    ["t", "\\$\\{?\\w+\\}?|\\b[A-Z][A-Z_]+(?==)"],
    ["k", "(?<=^|\\n|&& |\\| |; )(?:sudo )?[a-z][\\w./-]*"],
    ["n", "(?<=\\s)--?[a-z][\\w-]*"]
  ],
  yaml: [hash, quoted, ["t", "(?<=^|\\n|[\\s{,-])[\\w.$/-]+(?=:(?:\\s|$))"], ["n", "(?<=\\s)\\d[\\d.]*\\b"]],
  py: [
    hash,
    quoted,
    [
      "k",
      words(
        "def class import from return if else for in while with as try except raise async await None True False not and or"
      )
    ]
  ],
  nginx: [hash, quoted, ["k", "(?<=^|\\n|\\{ )\\s*[a-z_]+"]],
  dockerfile: [hash, quoted, ["k", "(?<=^|\\n)[A-Z]+"]]
}

const compiled = Object.fromEntries(
  Object.entries(grammars).map(([language, rules]) => [
    language,
    {
      classes: rules.map(([name]) => name),
      pattern: new RegExp(rules.map(([, source]) => `(${source})`).join("|"), language === "sql" ? "gi" : "g")
    }
  ])
)

/** Returns a block of code as HTML. Text in a language without a grammar is only escaped. */
export const highlight = (code, language) => {
  const grammar = compiled[language]
  if (grammar === undefined) return escape(code)
  let html = ""
  let end = 0
  for (const match of code.matchAll(grammar.pattern)) {
    const rule = match.slice(1).findIndex((group) => group !== undefined)
    html += `${escape(code.slice(end, match.index))}<span class="${grammar.classes[rule]}">${escape(match[0])}</span>`
    end = match.index + match[0].length
  }
  return html + escape(code.slice(end))
}
