"use strict";
// Curves of some runs in one chart. The data are base64 of float32: all steps, then all values.

function decode(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const numbers = new Float32Array(bytes.buffer);
  return [[...numbers.slice(0, numbers.length / 2)], [...numbers.slice(numbers.length / 2)]];
}

// Means over the last `share` of the whole length, as the figures draw it.
function smoothed([steps, values], share) {
  const window = (steps[steps.length - 1] - steps[0]) * share;
  let start = 0, sum = 0;
  return [steps, values.map((value, i) => {
    sum += value;
    while (steps[start] < steps[i] - window) sum -= values[start++];
    return sum / (i - start + 1);
  })];
}

const DASHES = [[], [6, 4], [2, 3], [9, 3, 2, 3], [12, 4]];

// One optimizer: its colour, a pattern for each run. Several: the colour and the pattern of each.
function seriesOf(runs, styles) {
  const several = new Set(runs.map((run) => run.optimizer)).size > 1;
  return runs.map((run, i) => ({
    label: run.label,
    stroke: styles[run.optimizer].colour,
    dash: several ? styles[run.optimizer].dash : DASHES[i % DASHES.length],
    width: 1.5,
    spanGaps: true,
    points: { show: false },
    value: (_, value) => (value == null ? "" : value.toPrecision(5)),
  }));
}

function axis(label) {
  const colours = getComputedStyle(document.documentElement);
  const [ink, line] = ["--soft", "--line"].map((name) => colours.getPropertyValue(name).trim());
  return { label, stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
}

// Draw one kind of curve of the runs that have it into `box`; returns the chart, or null without any.
function drawCurves(box, runs, styles, kind, smooth) {
  box.replaceChildren();
  const shown = runs.filter((run) => run.curves[kind]);
  if (!shown.length) {
    box.append("No curve of this kind is stored.");
    return null;
  }
  const curves = shown.map((run) => decode(run.curves[kind]));
  const data = uPlot.join(curves.map((curve) => (smooth ? smoothed(curve, 1 / 25) : curve)));
  const series = seriesOf(shown, styles);
  if (kind === "val") series.forEach((one) => { one.points = { show: true, size: 5 }; });
  const width = Math.max(240, box.clientWidth);
  const options = {
    width,
    height: Math.round(Math.min(380, Math.max(220, width * 0.55))),
    scales: { x: { time: false } },
    axes: [axis("step"), axis(kind === "val" ? "validation loss" : "training loss")],
    series: [{ label: "step" }, ...series],
  };
  return new uPlot(options, data, box);
}
