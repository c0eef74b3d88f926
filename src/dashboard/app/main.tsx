import "./Language"
import "./DirectionMarks"

import { render } from "preact"
import { App } from "./App"
import { startScroll } from "./Scroll"
import "./Theme"

startScroll()
const place = document.getElementById("app")
if (place !== null) render(<App />, place)
