// The frame of every page: header, navigation, contents of the page, footer.
import { posix } from "node:path"
import { escape } from "./highlight.mjs"

// Runs before the first paint, so that a chosen theme does not flash.
const early =
  'const d=document.documentElement;d.classList.add("js");d.dataset.form="promise";try{const s=localStorage;s.theme&&(d.dataset.theme=s.theme);d.dataset.form=s.form||"promise"}catch{}'

const item = (link, { page, title }, current) =>
  `<li><a href="${link(page)}"${page === current ? ' aria-current="page"' : ""}>${escape(title)}</a></li>`

/** The navigation: parts of the contents, each with its groups. The group of the current page is open. */
const navigation = (nav, link, current) =>
  nav
    .map(({ groups, name }) => {
      const inner = groups.map(({ items, name: group }) => {
        const list = `<ul>${items.map((one) => item(link, one, current)).join("")}</ul>`
        if (group === "") return list
        const open = items.some(({ page }) => page === current) ? " open" : ""
        return `<details${open}><summary>${escape(group)}</summary>${list}</details>`
      })
      return `<h2>${escape(name)}</h2>${inner.join("")}`
    })
    .join("")

const contents = (headings) => {
  const top = headings.filter(({ depth }) => depth <= 3)
  if (top.length < 2) return ""
  const items = top.map(({ depth, id, text }) => `<li class="d${depth}"><a href="#${id}">${escape(text)}</a></li>`)
  return `<nav class="toc" aria-label="On this page"><h2>On this page</h2><ul>${items.join("")}</ul></nav>`
}

const neighbours = (nav, link, current) => {
  const flat = nav.flatMap(({ groups }) => groups.flatMap(({ items }) => items))
  const at = flat.findIndex(({ page }) => page === current)
  if (at < 0) return ""
  const one = (target, rel, label) =>
    target === undefined
      ? "<span></span>"
      : `<a rel="${rel}" href="${link(target.page)}"><small>${label}</small> ${escape(target.title)}</a>`
  return `<nav class="neighbours" aria-label="Neighbouring pages">${one(flat[at - 1], "prev", "Previous")}${one(flat[at + 1], "next", "Next")}</nav>`
}

/** Returns a whole page. `page` is its path on the site, and `kind` is `home`, `try` or `document`. */
export const frame = ({
  body,
  description,
  from,
  headings,
  isGenerated = false,
  kind = "document",
  nav,
  page,
  site,
  title
}) => {
  const isHome = kind === "home"
  const isDocument = kind === "document"
  const styles = ["site", "text", ...(isDocument ? [] : [kind])]
  const scripts = ["site", ...(kind === "try" ? [kind] : [])]
  const link = (path) => posix.relative(posix.dirname(page), path) || posix.basename(path)
  const edit =
    from === undefined || isGenerated ? "" : `<a href="${site.repository}/edit/main/${from}">Edit this page</a> · `
  const menu = navigation(nav, link, page)
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(isHome ? `Nightshift: ${title}` : `${title} · Nightshift`)}</title>
<meta name="description" content="${escape(description)}">
<meta property="og:title" content="${escape(title)}">
<meta property="og:description" content="${escape(description)}">
<meta name="color-scheme" content="light dark">
${from === undefined ? "" : `<link rel="alternate" type="text/markdown" href="${link(from.slice("docs/".length))}">\n`}<link rel="icon" href="${link("assets/icon.svg")}" type="image/svg+xml">
${styles.map((name) => `<link rel="stylesheet" href="${link(`assets/${name}.css`)}">`).join("\n")}
<script>${early}</script>
${scripts.map((name) => `<script type="module" src="${link(`assets/${name}.js`)}"></script>`).join("\n")}
</head>
<body class="${kind}">
<a class="skip" href="#site-content">Skip to content</a>
<header>
<a class="brand" href="${link("index.html")}"><svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true"><path d="M14.5 2.5a9.5 9.5 0 1 0 7 13.6A8 8 0 0 1 14.5 2.5z" fill="currentColor"/></svg>Nightshift</a>
<span class="version" title="The version that these pages describe">v${escape(site.version)}</span>
<div class="search" role="search"><label for="site-search" class="hidden">Search the documentation</label><input id="site-search" type="search" role="combobox" aria-expanded="false" aria-controls="site-results" aria-autocomplete="list" autocomplete="off" spellcheck="false" placeholder="Search  /"><div id="site-results" role="listbox" aria-label="Search results" hidden></div></div>
<nav class="top" aria-label="Site"><a href="${link("contents.html")}">Docs</a><a href="${link("api/index.html")}">API</a><a href="${link("try.html")}">Try it</a><a href="${escape(site.repository)}">Source</a></nav>
<button type="button" class="theme" data-theme-toggle aria-pressed="false" aria-label="Dark colours"><svg viewBox="0 0 24 24" width="18" height="18" aria-hidden="true"><path d="M12 3a9 9 0 1 0 0 18z" fill="currentColor"/><circle cx="12" cy="12" r="9" fill="none" stroke="currentColor" stroke-width="2"/></svg></button>
</header>
<div class="layout">
${isDocument ? `<aside><nav class="side" aria-label="Documentation">${menu}</nav></aside>` : ""}
<main id="site-content" tabindex="-1">
${isDocument ? `<details class="menu"><summary>All pages</summary><nav aria-label="All pages">${menu}</nav></details>` : ""}
<article>${body}</article>
${neighbours(nav, link, page)}
</main>
${isDocument ? contents(headings) : ""}
</div>
<footer>${edit}<a href="${link("contents.html")}">All pages</a> · <a href="${link("llms.txt")}">llms.txt</a> · MIT license</footer>
</body>
</html>
`
}
