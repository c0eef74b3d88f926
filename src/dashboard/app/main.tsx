import { render } from "preact"

const place = document.getElementById("app")
if (place !== null) render(<h1>Mission Control</h1>, place)
