import "./Language"

import { render } from "preact"
import { App } from "./App"
import "./Theme"

const place = document.getElementById("app")
if (place !== null) render(<App />, place)
