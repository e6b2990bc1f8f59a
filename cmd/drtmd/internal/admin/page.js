// The live page: asks live.json each second and draws what it says. Whatever comes from the daemon
// is put in as text, never as HTML. chart.js draws the charts.
"use strict";

// A daemon that has not answered for slowMs is shown as silent, before the request is given up.
const everyMs = 1000, slowMs = 3000, timeoutMs = 6000, shownEvents = 40;

const $ = (id) => document.getElementById(id);

// html makes an element with a class and children, which are elements or texts.
function html(name, cls, ...children) {
  const e = document.createElement(name);
  if (cls) e.className = cls;
  e.append(...children.map((c) => (c instanceof Node ? c : String(c))));
  return e;
}

// into makes fresh nodes the children of an element. What is equal stays, so that a selection and
// the place of a screen reader outlive the second.
function into(parent, fresh) {
  fresh.forEach((c, i) => {
    const old = parent.childNodes[i];
    if (!old) { parent.append(c); return; }
    if (old.isEqualNode(c)) return;
    if (old.nodeName !== c.nodeName || !c.childElementCount) { old.replaceWith(c); return; }
    for (const a of [...old.attributes]) if (!c.hasAttribute(a.name)) old.removeAttribute(a.name);
    for (const a of c.attributes) old.setAttribute(a.name, a.value);
    into(old, [...c.childNodes]);
  });
  while (parent.childNodes.length > fresh.length) parent.lastChild.remove();
}

// say puts a text into an element, if it is another.
function say(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

const phases = { ready: ["✔", "ok"], running: ["▶", "ok"], refusing: ["✖", "bad"],
  gone: ["✖", "bad"], draining: ["◼", "warn"] };
const phaseMark = (p) => phases[p] || ["…", "warn"];
const levels = { error: ["✖", "bad"], warn: ["⚠", "warn"] };
const levelMark = (l) => levels[l] || ["·", "soft"];

// shortened leaves so many letters of a name.
const shortened = (s, most) => (s.length > most ? s.slice(0, most - 1) + "…" : s);

// links draws the nodes in a circle and a line for each two that have a link.
function links(nodes) {
  const at = new Map(), states = new Map(), count = nodes.length;
  const turn = count === 2 ? Math.PI : -Math.PI / 2; // two stand beside each other
  const wide = count > 1 ? 112 : 0, high = count > 1 ? 80 : 0;
  const r = Math.min(21, count > 1 ? (2.2 * high) / count + 4 : 21), named = count <= 8;
  nodes.forEach((x, i) => {
    const a = turn + (2 * Math.PI * i) / count;
    at.set(x.member.node, [wide * Math.cos(a), high * Math.sin(a)]);
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
    parts.push(svg("line", { x1: a[0].toFixed(1), y1: a[1].toFixed(1), x2: b[0].toFixed(1),
      y2: b[1].toFixed(1), class: "link " + (wrong ? "bad" : "ok"), "data-link": pair }));
  }
  for (const x of nodes) {
    const [cx, cy] = at.get(x.member.node).map((v) => v.toFixed(1));
    const [sign, cls] = phaseMark(x.phase);
    parts.push(svg("circle", { cx, cy, r, class: "node " + cls, "data-node": x.member.node }),
      svg("text", { x: cx, y: Number(cy) + 4, "text-anchor": "middle" },
        x.member.node + (r > 14 ? " " + sign : "")));
    if (named) {
      parts.push(svg("text", { x: cx, y: Number(cy) + r + 14, "text-anchor": "middle",
        class: "soft" }, shortened(x.member.name, 14)));
    }
  }
  const ys = [...at.values()].map((p) => p[1]);
  const top = Math.min(0, ...ys) - r - 4, bottom = Math.max(0, ...ys) + r + (named ? 20 : 4);
  $("links").setAttribute("viewBox", `-165 ${top.toFixed(1)} 330 ${(bottom - top).toFixed(1)}`);
  into($("links"), parts);
  const good = states.size - broken.length;
  say("linktext", !states.size ? "no links" : good + " up (solid)" +
    (broken.length ? ", " + broken.length + " not (dashed): " + broken.join(", ") : ""));
  $("links").setAttribute("aria-label", nodes.length + " nodes, links: " +
    $("linktext").textContent);
}

// mib writes a size as drtmd status does: one digit, cut off.
const mib = (bytes) => (Math.floor((bytes * 10) / 1048576) / 10).toFixed(1);

// nodeRow is a row of the table of nodes, with a link to the node's own page if it has one.
function nodeRow(x, page) {
  const [sign, cls] = phaseMark(x.phase);
  const phase = html("span", "", html("span", cls, sign + " " + x.phase),
    x.reason ? ": " + x.reason : "");
  for (const d of x.degraded || []) phase.append(html("br"), "⚠ " + d);
  const q = x.qps, name = html("span", "", html("b", "", x.member.node), " ");
  const link = page ? html("a", "", x.member.name) : x.member.name;
  if (page) Object.assign(link, { href: page, rel: "noopener" });
  name.append(link);
  // What a node that is gone had is over.
  const known = (text) => (x.phase === "gone" ? "–" : text);
  const cells = [["node", name], ["phase", phase],
    ["lease left", known(x.lease_left_s > 0 ?
      x.lease_left_s.toFixed(1) + " of " + x.lease_s.toFixed(0) + " s" : "none"), "n"],
    ["committed/s", x.load ? num(x.load.committed_per_s) : "–", "n"],
    ["device", known((x.device.transport || "–") + (x.device.name ? " " + x.device.name : ""))],
    ["registered", known(mib(x.memory.registered_bytes) + " MiB"), "n"],
    ["queue pairs", known(q.rc + " RC, " + q.ud + " UD" +
      (q.in_error ? ", " + q.in_error + " in error" : ""))],
    ["epoch, incarnation", known(x.epoch) + ", " + x.member.incarnation]];
  const row = html("tr", "", ...cells.map(([label, content, cls], i) => {
    const cell = html(i ? "td" : "th", cls, content);
    cell.setAttribute("role", i ? "cell" : "rowheader");
    if (!i) cell.setAttribute("scope", "row");
    cell.dataset.label = label;
    return cell;
  }));
  row.setAttribute("role", "row");
  return row;
}

// benchmark shows the one under way, and the data plane.
function benchmark(v, nodes) {
  const load = nodes.map((x) => x.load).find((x) => x);
  say("run", v.run || "none under way");
  $("bar").hidden = !load;
  $("bar").value = load && load.of_s > 0 ? Math.min(1, load.elapsed_s / load.of_s) : 0;
  into($("plane"), v.plane.map((f) => html("div", "", html("dt", "", f.name),
    html("dd", "", f.value))));
}

// percent does not call little nothing.
const percent = (x) => (x > 0 && x < 0.1 ? "< 0.1 %" : x.toFixed(1) + " %");

// aborts shows the causes, the most frequent first, each with its share and a bar.
function aborts(causes) {
  const list = Object.entries(causes).sort((x, y) => y[1] - x[1] || (x[0] < y[0] ? -1 : 1));
  const total = list.reduce((n, x) => n + x[1], 0);
  $("noaborts").hidden = list.length > 0;
  $("causes").hidden = !list.length;
  into($("aborts"), list.map(([cause, n]) => {
    const bar = svg("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none",
      "aria-hidden": "true" });
    bar.append(svg("rect", { width: ((100 * n) / list[0][1]).toFixed(1), height: 8,
      "data-cause": cause }));
    const head = html("th", "", cause, bar);
    head.scope = "row";
    return html("tr", "", head, html("td", "n", num(n)),
      html("td", "n", percent((100 * n) / total)));
  }));
}

// events shows the last ones of all nodes, the newest first. What a node says more than once in a
// second is there once.
function events(nodes) {
  const said = new Map();
  for (const x of nodes) {
    for (const e of (x.events || []).toReversed()) {
      const key = [x.member.node, e.time.slice(0, 19), e.level, e.text].join(" ");
      if (!said.has(key)) said.set(key, { ...e, node: x.member.node, times: 0 });
      said.get(key).times++;
    }
  }
  const list = [...said.values()];
  list.sort((x, y) => Date.parse(y.time) - Date.parse(x.time));
  into($("events"), list.slice(0, shownEvents).map((e) => {
    const [sign, cls] = levelMark(e.level);
    return html("li", "", html("time", "", e.time.slice(11, 19)), " ",
      html("b", cls, sign + " " + e.level), " node " + e.node + ": " + e.text +
        (e.times > 1 ? " (" + e.times + " times)" : ""));
  }));
  if (!list.length) into($("events"), [html("li", "", "none")]);
}

function draw(v) {
  const st = v.status, nodes = st.nodes || [];
  say("cluster", st.state.cluster);
  say("summary", "epoch " + st.state.active.epoch + ", " +
    (st.state.active.members || []).length + " members, shard map " + st.state.shards.version +
    "; node " + st.from + " says so at " + st.date.slice(11, 19) + " UTC");
  say("nature", v.nature);
  $("problem").hidden = !st.problem;
  $("problem").lastElementChild.textContent = st.problem || "";
  for (const e of document.querySelectorAll(".from")) e.textContent = st.from;
  into($("nodes"), nodes.map((x) => nodeRow(x, v.pages[x.member.node])));
  links(nodes);
  benchmark(v, nodes);
  const rates = [
    { key: "committed_per_s", cls: "a", sign: "━", name: "committed", short: "commits" },
    { key: "aborts_per_s", cls: "b", sign: "┅", name: "aborted attempts", short: "aborts" }];
  chart("whole", v.whole, "/s", false, rates);
  chart("rate", v.samples, "/s", false, rates);
  chart("latency", v.samples, " µs", true, [
    { key: "p50_us", cls: "a", sign: "━", name: "median", short: "median" },
    { key: "p99_us", cls: "b", sign: "┅", name: "99th percentile", short: "p99" }]);
  aborts(v.aborts);
  events(nodes);
  // Spoken when it becomes another, and not each second.
  say("state", nodes.map((x) => "node " + x.member.node + " " + x.phase).join(", ") + "; " +
    (nodes.map((x) => x.load).filter((x) => x).map((x) => x.run + " " + x.phase)[0] ||
      "no benchmark"));
}

// last is what the daemon said last, and heard when. asked is when it was asked what it has not
// answered yet, 0 if nothing; wrong is what came of the last request in words, "" if it was well.
let heard = Date.now(), last = null, asked = 0, wrong = "";

// connection says whether what stands here is old, and of when it is.
function connection() {
  if (!wrong && asked && Date.now() - asked > slowMs) wrong = "it is silent";
  const stale = wrong !== "";
  $("offline").hidden = !stale;
  $("main").classList.toggle("stale", stale);
  document.title = (stale ? "✖ " : last && last.status.problem ? "⚠ " : "") + "drtmd " +
    $("cluster").textContent;
  if (!stale) { say("why", ""); return; }
  const since = last ? last.status.date.slice(11, 19) : document.body.dataset.date;
  say("why", "disconnected: the daemon does not answer (" + wrong +
    "). Trying again each second. All that stands here is of " + since + " UTC");
  say("ago", "(" + Math.round((Date.now() - heard) / 1000) + " s ago)");
}

async function ask() {
  let r;
  try {
    r = await fetch("live.json", { signal: AbortSignal.timeout(timeoutMs), cache: "no-store" });
  } catch (e) {
    throw new Error(e.name === "TimeoutError" ? "it is silent" : "no connection");
  }
  if (!r.ok) throw new Error("status " + r.status + ": " + shortened((await r.text()).trim(), 200));
  const v = await r.json();
  // Another build may say other things: its own page knows them.
  if (v.build !== document.body.dataset.build) { location.reload(); return; }
  [last, heard] = [v, Date.now()];
  draw(v);
}

async function loop() {
  if (!document.hidden) {
    asked = Date.now();
    try {
      await ask();
      wrong = "";
    } catch (e) {
      wrong = e.message;
    }
    asked = 0;
    connection();
  }
  setTimeout(loop, everyMs);
}

addEventListener("resize", () => { if (last) draw(last); });
setInterval(connection, everyMs);
loop();
