// Runs in the page of Mission Control before its own scripts. The page around it runs Nightshift and answers its requests.
const { nightshift } = parent

if (nightshift === undefined) location.replace(new URL("../../../try.html", location.href))

const home = new URL("../", location.href.split("#")[0])
const outside = window.fetch.bind(window)

window.fetch = (input, { body, headers, method, signal } = {}) => {
  const { pathname, search } = new URL(input, location.href)
  if (!pathname.startsWith(`${home.pathname}api/`)) return outside(input)
  const path = pathname.slice(home.pathname.length - 1) + search
  const aborted = new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)))
  return Promise.race([nightshift.answer(path, { body, headers, method }), aborted])
}

window.EventSource = class extends EventTarget {
  static CLOSED = 2
  readyState = 0
  #stop = new AbortController()

  constructor(url) {
    super()
    this.#listen(url).then(
      () => this.#end(),
      () => this.#end()
    )
  }
  async #listen(url) {
    const response = await fetch(url)
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
    this.#stop.signal.addEventListener("abort", () => reader.cancel())
    this.readyState = 1
    this.onopen?.()
    let text = ""
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const blocks = (text + value).split("\n\n")
      text = blocks.pop()
      for (const block of blocks) this.#receive(block)
    }
  }
  #receive(block) {
    const fields = Object.fromEntries(
      block.split("\n").map((line) => /^(\w*): ?(.*)$/s.exec(line)?.slice(1) ?? ["", ""])
    )
    if (fields.data === undefined) return
    this.dispatchEvent(new MessageEvent(fields.event ?? "message", { data: fields.data, lastEventId: fields.id ?? "" }))
  }
  #end() {
    if (this.readyState === 2) return
    this.readyState = 2
    this.onerror?.()
  }
  close() {
    this.readyState = 2
    this.#stop.abort()
  }
}

// Times are those of the cluster, whose clock can run faster.
const RealDate = Date
window.Date = class extends RealDate {
  constructor(...given) {
    super(...(given.length === 0 ? [nightshift.now()] : given))
  }
  static now() {
    return nightshift.now()
  }
}

// The page around it says what to do first.
localStorage.setItem("nightshift.first-steps", "hidden")

// The colours are those of the page around it.
const themeKey = "nightshift.theme"
nightshift.whenTheme((theme) => {
  localStorage.setItem(themeKey, theme)
  document.documentElement.dataset.theme = theme
  dispatchEvent(new Event("themechange"))
})

// The description of the HTTP API is a page of the site.
addEventListener("click", (event) => {
  const link = event.target.closest?.('a[href="../docs"]')
  if (link === null || link === undefined) return
  link.href = new URL("../../../operate/http-api.html", location.href.split("#")[0])
  link.target = "_top"
})
