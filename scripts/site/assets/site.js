// Search, colours, versions and the choice between promises and Effect. Every page is complete without it.
const page = document.documentElement
const base = new URL("..", import.meta.url)
const store = (key, value) => {
  try {
    localStorage.setItem(key, value)
  } catch {
    // Storage is off: the choice lasts until the page is left.
  }
}

// Colours: the button changes what the system prefers.
const isDark = () =>
  (page.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark"
const themeButton = document.querySelector("[data-theme-toggle]")
const showTheme = () => themeButton?.setAttribute("aria-pressed", String(isDark()))
themeButton?.addEventListener("click", () => {
  page.dataset.theme = isDark() ? "light" : "dark"
  store("theme", page.dataset.theme)
  showTheme()
})
showTheme()

// Versions: shows the same page of another version, or its first page if it has no such page.
const offerVersions = async () => {
  const versions = await (await fetch(new URL("versions.json", base))).json()
  const label = document.querySelector(".version")
  if (versions.length < 2 || label === null) return
  const choice = document.createElement("select")
  choice.className = "version"
  choice.setAttribute("aria-label", "Version")
  for (const { path, version } of versions) {
    const shown = `v${version}`
    choice.append(new Option(shown, path, shown === label.textContent, shown === label.textContent))
  }
  choice.addEventListener("change", async () => {
    const other = new URL(choice.value, base)
    const same = new URL(location.href.slice(base.href.length), other)
    const isThere = await fetch(same, { method: "HEAD" }).then(({ ok }) => ok)
    location.assign(isThere ? same : new URL("index.html", other))
  })
  label.replaceWith(choice)
}
// Pages that are opened as files cannot load the list.
offerVersions().catch(() => {})

// Tabs: the choice applies to all programs of all pages.
const labels = { promise: "Promises", effect: "Effect" }
const groups = [...document.querySelectorAll(".forms")]
const choose = (form) => {
  page.dataset.form = form
  for (const tab of document.querySelectorAll("[data-choose]")) {
    const chosen = tab.dataset.choose === form
    tab.setAttribute("aria-selected", String(chosen))
    tab.tabIndex = chosen ? 0 : -1
  }
}
groups.forEach((group, at) => {
  const list = document.createElement("div")
  list.className = "tabs"
  list.setAttribute("role", "tablist")
  list.setAttribute("aria-label", "Form of the program")
  for (const panel of group.querySelectorAll("[data-form]")) {
    const { form } = panel.dataset
    const tab = document.createElement("button")
    Object.assign(tab, { type: "button", id: `site-tab-${at}-${form}`, textContent: labels[form] })
    panel.id = `site-form-${at}-${form}`
    panel.setAttribute("role", "tabpanel")
    panel.setAttribute("aria-labelledby", tab.id)
    panel.removeAttribute("aria-label")
    tab.setAttribute("role", "tab")
    tab.setAttribute("aria-controls", panel.id)
    tab.dataset.choose = form
    list.append(tab)
  }
  const pick = (tab) => {
    // The programs above may differ in length: keep this one where the reader sees it.
    const before = list.getBoundingClientRect().top
    choose(tab.dataset.choose)
    store("form", tab.dataset.choose)
    scrollBy({ top: list.getBoundingClientRect().top - before, behavior: "instant" })
  }
  list.addEventListener("click", ({ target }) => target.dataset.choose && pick(target))
  list.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return
    event.preventDefault()
    const other = list.querySelector('[aria-selected="false"]')
    pick(other)
    other.focus()
  })
  group.prepend(list)
})
choose(page.dataset.form ?? "promise")

// Copy buttons.
for (const block of document.querySelectorAll(".code")) {
  const button = document.createElement("button")
  Object.assign(button, { type: "button", className: "copy", textContent: "Copy" })
  button.addEventListener("click", async () => {
    const text = block.querySelector("code").textContent
    const isCopied = await navigator.clipboard.writeText(text).then(
      () => true,
      () => false
    )
    button.textContent = isCopied ? "Copied" : "Not allowed"
    setTimeout(() => (button.textContent = "Copy"), 2000)
  })
  block.append(button)
}

// Search: its code and the index are loaded when the field gets the focus.
const field = document.querySelector("#site-search")
const list = document.querySelector("#site-results")
let index
const load = () =>
  (index ??= Promise.all([
    import("./search.js"),
    fetch(new URL("search.json", base)).then((response) => response.json())
  ]).then(([{ makeIndex, search }, pages]) => {
    const prepared = makeIndex(pages)
    return (query) => search(prepared, query)
  }))
const close = () => {
  list.hidden = true
  field.setAttribute("aria-expanded", "false")
  field.removeAttribute("aria-activedescendant")
}
const option = (result, at) => {
  const link = document.createElement("a")
  Object.assign(link, { href: new URL(result.url, base), id: `site-result-${at}`, tabIndex: -1 })
  link.setAttribute("role", "option")
  const parts = [
    ["strong", result.heading || result.title],
    ["small", result.heading ? result.title : ""],
    ["span", result.excerpt]
  ]
  for (const [name, text] of parts)
    if (text) link.append(Object.assign(document.createElement(name), { textContent: text }))
  return link
}
const show = async () => {
  const query = field.value.trim()
  if (query === "") return close()
  const loaded = await load().catch(() => undefined)
  if (field.value.trim() !== query) return
  const results = loaded === undefined ? [] : loaded(query)
  const none = loaded === undefined ? "The search index could not be loaded." : `No page matches "${query}".`
  list.replaceChildren(...results.map(option))
  if (results.length === 0) {
    const note = Object.assign(document.createElement("p"), { textContent: none })
    note.setAttribute("role", "option")
    note.setAttribute("aria-disabled", "true")
    list.append(note)
  }
  list.hidden = false
  field.setAttribute("aria-expanded", "true")
  field.removeAttribute("aria-activedescendant")
}
const move = (step) => {
  const options = [...list.querySelectorAll("a")]
  if (options.length === 0) return
  const at = options.findIndex((one) => one.id === field.getAttribute("aria-activedescendant"))
  const next = options[(at + step + options.length + (at < 0 && step < 0 ? 1 : 0)) % options.length]
  for (const one of options) one.setAttribute("aria-selected", String(one === next))
  field.setAttribute("aria-activedescendant", next.id)
  next.scrollIntoView({ block: "nearest" })
}
field.addEventListener("focus", () => load().catch(() => (index = undefined)))
field.addEventListener("input", show)
field.addEventListener("keydown", (event) => {
  if (event.key === "Escape") close()
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault()
    move(event.key === "ArrowDown" ? 1 : -1)
  }
  if (event.key === "Enter") {
    const id = field.getAttribute("aria-activedescendant")
    ;(id === null ? list.querySelector("a") : document.getElementById(id))?.click()
  }
})
document.addEventListener("keydown", (event) => {
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey) {
    event.preventDefault()
    field.focus()
  }
})
document.addEventListener("click", ({ target }) => target.closest(".search") === null && close())
