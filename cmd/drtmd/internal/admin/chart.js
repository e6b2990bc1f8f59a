// Charts of the live page: two fields of the samples over time, told apart by dashes and by labels
// at the curves' ends as well as by colour.
"use strict";

// svg makes an element of a picture.
function svg(name, attributes, text) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  return e;
}

// num is a number in three digits or so.
function num(x) {
  if (x >= 1e6) return (x / 1e6).toFixed(2) + " M";
  if (x >= 1e4) return (x / 1e3).toFixed(x >= 1e5 ? 0 : 1) + " k";
  if (x >= 100 || Number.isInteger(x)) return x.toFixed(0);
  return x >= 0.01 ? x.toFixed(x >= 10 ? 1 : 2) : x.toPrecision(1);
}

// roundUp is the next number whose half is a round one as well, for an axis.
function roundUp(x) {
  if (!(x > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(x));
  return unit * [1, 2, 3, 4, 5, 6, 8, 10].find((k) => k * unit >= x * (1 - 1e-9));
}

// linearAxis begins at 0. An axis has ticks, and the share of its height at which a value is.
function linearAxis(values) {
  const top = roundUp(Math.max(0, ...values));
  return { ticks: [0, top / 2, top], share: (v) => v / top };
}

// logAxis has whole decades, and ticks at all of them, or at every other one if there are many.
function logAxis(values) {
  const least = 1e-3; // a nanosecond where values are in microseconds
  const high = Math.max(least, ...values), low = values.reduce((m, v) => Math.min(m, v), high);
  const bottom = Math.floor(Math.log10(Math.max(low, least)) + 1e-9);
  const top = Math.max(bottom + 1, Math.ceil(Math.log10(high) - 1e-9));
  const ticks = [];
  for (let e = bottom; e <= top; e += top - bottom > 4 ? 2 : 1) ticks.push(10 ** e);
  return { ticks,
    share: (v) => (Math.log10(Math.max(v, 10 ** bottom)) - bottom) / (top - bottom) };
}

// curve draws a field; where a sample has none it leaves a gap. It says how many points it has, and
// where the last one is.
function curve(samples, f, x, y, parts) {
  let run = [], points = 0, end = null;
  const flush = () => {
    if (run.length > 1) {
      parts.push(svg("polyline", { points: run.join(" "), class: "curve " + f.cls }));
    }
    if (run.length === 1) {
      const [cx, cy] = run[0].split(",");
      parts.push(svg("circle", { cx, cy, r: 2.5, class: "dot " + f.cls }));
    }
    run = [];
  };
  for (const s of samples) {
    if (s[f.key] === null) { flush(); continue; }
    end = { x: x(s), y: y(s[f.key]), f };
    run.push(end.x.toFixed(1) + "," + end.y.toFixed(1));
    points++;
  }
  flush();
  return { points, end };
}

// chart draws fields of the samples. One unit is a pixel, so that text has its size everywhere.
function chart(id, samples, unit, logarithmic, fields) {
  const width = Math.max($(id).clientWidth, 200);
  const left = 64, right = width - 58, bottom = 160, height = 148;
  $(id).setAttribute("viewBox", "0 0 " + width + " 190");
  const values = samples.flatMap((x) => fields.map((f) => x[f.key])).filter((v) => v !== null);
  const some = values.some((v) => v > 0);
  const axis = logarithmic ? logAxis(values) : linearAxis(values);
  const begin = samples.length ? Date.parse(samples[0].time) : 0;
  const end = samples.length ? Date.parse(samples.at(-1).time) : 0;
  const x = (s) => (end > begin ?
    left + ((Date.parse(s.time) - begin) / (end - begin)) * (right - left) : right);
  const y = (v) => bottom - axis.share(v) * height;
  const parts = [];
  for (const v of some ? axis.ticks : axis.ticks.slice(0, 1)) {
    const at = y(v).toFixed(1);
    parts.push(svg("line", { x1: left, x2: right, y1: at, y2: at, class: "grid" }));
    if (!some) continue;
    parts.push(svg("text", { x: left - 6, y: Number(at) + 4, "text-anchor": "end", class: "soft" },
      num(v) + unit));
  }
  const ends = [];
  for (const f of fields) {
    const c = curve(samples, f, x, y, parts);
    $(id).setAttribute("data-points-" + f.cls, c.points);
    if (some && c.end) ends.push(c.end);
  }
  // The labels do not cover each other: the upper one gives way.
  const lineHeight = 14;
  ends.sort((a, b) => b.y - a.y);
  let free = Infinity;
  for (const e of ends) {
    const at = Math.max(12, Math.min(e.y + 4, free - lineHeight));
    free = at;
    parts.push(svg("text", { x: (e.x + 6).toFixed(1), y: at.toFixed(1), class: e.f.cls },
      e.f.short));
  }
  if (!some) {
    parts.push(svg("text", { x: (left + right) / 2, y: 90, "text-anchor": "middle", class: "soft" },
      samples.length ? "no transactions in this time" : "no samples yet"));
  }
  if (samples.length) {
    const clock = (s) => s.time.slice(11, 19);
    parts.push(svg("text", { x: left, y: 180, class: "soft" }, clock(samples[0])),
      svg("text", { x: width - 2, y: 180, "text-anchor": "end", class: "soft" },
        clock(samples.at(-1)) + " UTC"));
  }
  into($(id), parts);
  keys(id, samples.at(-1), unit, logarithmic, fields);
}

// keys are below a chart: what its curves are, and their last values.
function keys(id, last, unit, logarithmic, fields) {
  const now = (f) => f.name + ": " +
    (!last || last[f.key] === null ? "none" : num(last[f.key]) + unit);
  const list = fields.map((f) => html("span", f.cls, f.sign + " " + now(f)));
  if (logarithmic) list.push(html("span", "soft", "logarithmic"));
  into($(id + "-keys"), list);
  $(id).setAttribute("aria-label", fields.map(now).join(", "));
}
