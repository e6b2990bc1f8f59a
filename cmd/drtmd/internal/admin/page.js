// The live page: asks live.json each second and draws what it says. Whatever comes from the daemon
// is put in as text, never as HTML.
"use strict";

const everyMs = 1000, timeoutMs = 6000, shownEvents = 40;

const $ = (id) => document.getElementById(id);

// html makes an element with a class and children, which are elements or texts.
function html(name, cls, ...children) {
  const e = document.createElement(name);
  if (cls) e.className = cls;
  e.append(...children.map((c) => (c instanceof Node ? c : String(c))));
  return e;
}

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
  return x.toFixed(x >= 10 ? 1 : 2);
}

const phases = { ready: ["✔", "ok"], running: ["▶", "ok"], refusing: ["✖", "bad"],
  gone: ["✖", "bad"], draining: ["◼", "warn"] };
const phaseMark = (p) => phases[p] || ["…", "warn"];
const levels = { error: ["✖", "bad"], warn: ["⚠", "warn"] };
const levelMark = (l) => levels[l] || ["·", "soft"];

// roundUp is the next number whose half is a round one as well, for an axis.
function roundUp(x) {
  if (!(x > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(x));
  return unit * [1, 2, 3, 4, 5, 6, 8, 10].find((k) => k * unit >= x * (1 - 1e-9));
}

// widthOf is that of a picture on the screen: one unit is a pixel, so that text has its size.
const widthOf = (e) => Math.max(e.clientWidth, 200);

// chart draws two fields of the samples over time; a field that is null leaves a gap.
function chart(id, samples, fields) {
  const width = widthOf($(id)), left = 52, right = width - 8, bottom = 160, height = 148;
  $(id).setAttribute("viewBox", "0 0 " + width + " 190");
  const values = samples.flatMap((x) => fields.map((f) => x[f.key] ?? 0));
  const top = roundUp(Math.max(0, ...values));
  const begin = samples.length ? Date.parse(samples[0].time) : 0;
  const end = samples.length ? Date.parse(samples.at(-1).time) : 0;
  const x = (s) => (end > begin ?
    left + ((Date.parse(s.time) - begin) / (end - begin)) * (right - left) : right).toFixed(1);
  const y = (v) => (bottom - (v / top) * height).toFixed(1);
  const parts = [];
  for (const share of [0, 0.5, 1]) {
    const at = y(share * top);
    parts.push(svg("line", { x1: left, x2: right, y1: at, y2: at, class: "grid" }),
      svg("text", { x: left - 6, y: Number(at) + 4, "text-anchor": "end", class: "soft" },
        num(share * top)));
  }
  for (const f of fields) {
    let run = [], shown = 0;
    const flush = () => {
      if (run.length > 1) {
        parts.push(svg("polyline", { points: run.join(" "), class: "curve " + f.cls }));
      }
      if (run.length === 1) {
        const [cx, cy] = run[0].split(",");
        parts.push(svg("circle", { cx, cy, r: 2, class: "dot " + f.cls }));
      }
      run = [];
    };
    for (const s of samples) {
      if (s[f.key] === null) { flush(); continue; }
      run.push(x(s) + "," + y(s[f.key]));
      shown++;
    }
    flush();
    $(id).setAttribute("data-points-" + f.cls, shown);
  }
  const ago = Math.round((end - begin) / 1000);
  parts.push(svg("text", { x: left, y: 180, class: "soft" }, ago ? ago + " s ago" : ""),
    svg("text", { x: right, y: 180, "text-anchor": "end", class: "soft" }, "now"));
  $(id).replaceChildren(...parts);
  const last = samples.at(-1);
  if (!last) return;
  $(id).setAttribute("aria-label", fields.map((f) => f.name + " now " +
    (last[f.key] === null ? "none" : num(last[f.key]))).join(", "));
}

// links draws the nodes in a circle and a line for each two that have a link.
function links(nodes) {
  const at = new Map(), states = new Map();
  nodes.forEach((x, i) => {
    const a = -Math.PI / 2 + (2 * Math.PI * i) / nodes.length;
    at.set(x.member.node, nodes.length === 1 ? [160, 115] :
      [160 + 118 * Math.cos(a), 115 + 86 * Math.sin(a)]);
  });
  for (const x of nodes) {
    for (const l of x.links || []) {
      if (!at.has(l.peer)) continue;
      const pair = [x.member.node, l.peer].sort((a, b) => a - b).join("–");
      const list = states.get(pair) || [];
      list.push(x.phase === "gone" ? "not known" : l.state);
      states.set(pair, list);
    }
  }
  const parts = [], broken = [];
  for (const [pair, list] of states) {
    const [a, b] = pair.split("–").map((n) => at.get(Number(n)));
    const wrong = list.find((s) => s !== "up");
    if (wrong) broken.push(pair + " " + wrong);
    parts.push(svg("line", { x1: a[0], y1: a[1], x2: b[0], y2: b[1],
      class: "link " + (wrong ? "bad" : "ok"), "data-link": pair }));
  }
  for (const x of nodes) {
    const [cx, cy] = at.get(x.member.node), [sign, cls] = phaseMark(x.phase);
    parts.push(svg("circle", { cx, cy, r: 21, class: "node " + cls, "data-node": x.member.node }),
      svg("text", { x: cx, y: cy + 4, "text-anchor": "middle" }, x.member.node + " " + sign));
  }
  $("links").replaceChildren(...parts);
  const good = states.size - broken.length;
  $("linktext").textContent = !states.size ? "no links" :
    good + " up (solid)" + (broken.length ? "; dashed: " + broken.join(", ") : "");
  $("links").setAttribute("aria-label",
    nodes.length + " nodes, links: " + $("linktext").textContent);
}

// nodeRow is a row of the table of nodes.
function nodeRow(x) {
  const [sign, cls] = phaseMark(x.phase);
  const phase = html("span", "", html("span", cls, sign + " " + x.phase),
    x.reason ? ": " + x.reason : "");
  for (const d of x.degraded || []) phase.append(html("br"), "⚠ " + d);
  const q = x.qps, name = html("span", "", html("b", "", x.member.node), " " + x.member.name);
  const cells = [["node", name], ["phase", phase],
    ["lease left", x.lease_left_s.toFixed(1) + " of " + x.lease_s.toFixed(0) + " s", "n"],
    ["committed/s", x.load ? num(x.load.committed_per_s) : "–", "n"],
    ["device", x.device.transport + (x.device.name ? " " + x.device.name : "")],
    ["memory", Math.floor(x.memory.registered_bytes / 1048576) + " MiB"],
    ["queue pairs", q.rc + " RC, " + q.ud + " UD" +
      (q.in_error ? ", " + q.in_error + " in error" : "")],
    ["epoch, incarnation", x.epoch + ", " + x.member.incarnation]];
  return html("tr", "", ...cells.map(([label, content, cls]) => {
    const td = html("td", cls, content);
    td.dataset.label = label;
    return td;
  }));
}

// benchmark shows the one under way.
function benchmark(nodes) {
  const load = nodes.map((x) => x.load).find((x) => x);
  $("bar").hidden = !load;
  if (!load) { $("run").textContent = "none under way"; return; }
  const sum = (key) => nodes.reduce((n, x) => n + (x.load ? x.load[key] : 0), 0);
  $("run").textContent = load.run + ": " + load.phase + ", " + load.elapsed_s.toFixed(1) + " of " +
    load.of_s.toFixed(1) + " s; all nodes: " + num(sum("committed_per_s")) + " committed/s, " +
    num(sum("committed")) + " so far";
  $("bar").value = load.of_s > 0 ? load.elapsed_s / load.of_s : 0;
}

// aborts shows the causes, the most frequent first, each with its share as a bar.
function aborts(causes) {
  const list = Object.entries(causes).sort((x, y) => y[1] - x[1]);
  const most = list.length ? list[0][1] : 1, row = 22;
  if (!list.length) { $("aborts").replaceChildren(html("p", "", "none")); return; }
  const total = list.reduce((n, x) => n + x[1], 0), width = widthOf($("aborts"));
  const picture = svg("svg", { viewBox: `0 0 ${width} ${row * 2 * list.length}`, role: "img",
    "aria-label": list.map(([cause, n]) => cause + " " + n).join(", ") });
  list.forEach(([cause, n], i) => {
    const y = row * 2 * i;
    picture.append(svg("text", { x: 0, y: y + 15 }, cause),
      svg("text", { x: width, y: y + 15, "text-anchor": "end" },
        num(n) + " (" + ((100 * n) / total).toFixed(1) + " %)"),
      svg("rect", { x: 0, y: y + 21, width: ((width * n) / most).toFixed(1), height: 12,
        class: "dot a", "data-cause": cause }));
  });
  $("aborts").replaceChildren(picture);
}

// events shows the last ones of all nodes, the newest first.
function events(nodes) {
  const list = nodes.flatMap((x) => (x.events || []).map((e) => ({ ...e, node: x.member.node })));
  list.sort((x, y) => Date.parse(y.time) - Date.parse(x.time));
  $("events").replaceChildren(...list.slice(0, shownEvents).map((e) => {
    const [sign, cls] = levelMark(e.level);
    return html("li", "", html("time", "", e.time.slice(11, 19)), " ",
      html("b", cls, sign + " " + e.level), " node " + e.node + ": " + e.text);
  }));
  if (!list.length) $("events").replaceChildren(html("li", "", "none"));
}

function draw(v) {
  const st = v.status, nodes = st.nodes || [];
  $("cluster").textContent = st.state.cluster;
  $("summary").textContent = "epoch " + st.state.active.epoch + ", " +
    (st.state.active.members || []).length + " members, shard map " + st.state.shards.version +
    "; node " + st.from + " says so at " + st.date.slice(11, 19) + " UTC";
  $("problem").hidden = !st.problem;
  $("problem").lastElementChild.textContent = st.problem || "";
  for (const e of document.querySelectorAll(".from")) e.textContent = st.from;
  $("nodes").replaceChildren(...nodes.map(nodeRow));
  links(nodes);
  benchmark(nodes);
  chart("rate", v.samples, [{ key: "committed_per_s", cls: "a", name: "committed per second" },
    { key: "aborts_per_s", cls: "b", name: "aborted attempts per second" }]);
  chart("latency", v.samples, [{ key: "p50_us", cls: "a", name: "median in microseconds" },
    { key: "p99_us", cls: "b", name: "99th percentile in microseconds" }]);
  aborts(v.aborts);
  events(nodes);
}

// heard is when the daemon last answered, and last what it said.
let heard = Date.now(), last = null;

async function ask() {
  const r = await fetch("live.json", { signal: AbortSignal.timeout(timeoutMs), cache: "no-store" });
  if (!r.ok) throw new Error("status " + r.status);
  const v = await r.json();
  // Another build may say other things: its own page knows them.
  if (v.build !== document.body.dataset.build) { location.reload(); return; }
  draw(v);
  [last, heard] = [v, Date.now()];
  $("offline").hidden = true;
}

async function loop() {
  if (!document.hidden) {
    try {
      await ask();
    } catch {
      $("offline").textContent = "✖ disconnected: the daemon has not answered for " +
        Math.round((Date.now() - heard) / 1000) + " s; what stands here is from then. " +
        "Trying again.";
      $("offline").hidden = false;
    }
  }
  setTimeout(loop, everyMs);
}

addEventListener("resize", () => { if (last) draw(last); });
loop();
