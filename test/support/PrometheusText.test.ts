import { describe, expect, it } from "@effect/vitest"
import * as PrometheusText from "./PrometheusText.js"

const page = (...lines: ReadonlyArray<string>) => `${lines.join("\n")}\n`

describe("the parser of Prometheus' text format", () => {
  it("parses families, labels with escapes, and numbers of every form", () => {
    const families = PrometheusText.parse(
      page("# HELP a_total Some help.", "# TYPE a_total counter", 'a_total{x="a\\"} 1\\n\\\\",y=""} 1.5e3', "a_total 2")
    )
    expect(families.get("a_total")).toEqual({
      name: "a_total",
      type: "counter",
      help: "Some help.",
      samples: [
        { name: "a_total", labels: { x: 'a"} 1\n\\', y: "" }, value: 1500 },
        { name: "a_total", labels: {}, value: 2 }
      ]
    })
  })

  it.each([
    ["a line that does not end", "# TYPE a gauge\na 1"],
    ["a sample without its type", page("a 1")],
    ["a sample in another's family", page("# TYPE a gauge", "b 1")],
    ["a type twice", page("# TYPE a gauge", "a 1", "# TYPE a gauge")],
    ["a series twice", page("# TYPE a gauge", 'a{x="1",y="2"} 1', 'a{y="2",x="1"} 2')],
    ["a label twice", page("# TYPE a gauge", 'a{x="1",x="2"} 1')],
    ["a name that is none", page("# TYPE a gauge", "9a 1")],
    ["a number that is none", page("# TYPE a gauge", "a many")],
    ["a quote that never ends", page("# TYPE a gauge", 'a{x="1} 1')],
    ["a counter below zero", page("# TYPE a counter", "a -1")],
    [
      "buckets that fall",
      page("# TYPE h histogram", 'h_bucket{le="1"} 2', 'h_bucket{le="+Inf"} 1', "h_sum 1", "h_count 1")
    ],
    ["no bucket for everything", page("# TYPE h histogram", 'h_bucket{le="1"} 2', "h_sum 1", "h_count 2")],
    ["a help text apart from its family", page("# HELP a Some.", "# TYPE b gauge", "b 1", "# TYPE a gauge", "a 1")],
    ["a help text after its family", page("# TYPE a gauge", "a 1", "# HELP a Some.")],
    ["a family in two places", page("# TYPE a gauge", "a 1", "# TYPE b gauge", "b 1", "a 2")],
    ["a quantile that is none of a summary", page("# TYPE a gauge", 'a{quantile="0.5"} 1')],
    ["a bound that is none of a histogram", page("# TYPE a gauge", 'a{le="0.5"} 1')],
    ["a label with a colon", page("# TYPE a gauge", 'a{x:y="1"} 1')],
    ["a label of Prometheus' own", page("# TYPE a gauge", 'a{__name__="b"} 1')],
    ["an escape that does not exist", page("# TYPE a gauge", 'a{x="\\t"} 1')],
    ["a counter without end", page("# TYPE a_total counter", "a_total +Inf")],
    ["a counter of ours without _total", page("# HELP nightshift_a Some.", "# TYPE nightshift_a counter")],
    ["a metric of ours without help", page("# TYPE nightshift_a gauge", "nightshift_a 1")],
    [
      "a histogram whose count is another family",
      page("# TYPE h histogram", 'h_bucket{le="+Inf"} 1', "h_sum 1", "h_count 1", "# TYPE h_count gauge")
    ],
    ["a count that is another", page("# TYPE h histogram", 'h_bucket{le="+Inf"} 2', "h_sum 1", "h_count 3")]
  ])("refuses %s", (_, text) => {
    expect(() => PrometheusText.parse(text)).toThrow()
  })
})
