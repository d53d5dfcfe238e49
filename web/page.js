// SPDX-License-Identifier: Apache-2.0
// The page of a daemon: reads documents from /v1/stream and draws them.
//
// Strings of others (names, URLs, events) become text nodes, never HTML. Nothing is loaded from elsewhere. The part of
// the URL after '#' says what is shown: #/, #/job/TENANT/NAME, #/dataset/TENANT/NAME.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const POINTS = 120; // of a sparkline: two minutes
const ROWS = 50; // of a table; a button shows the rest
const history = new Map(); // "job TENANT/NAME" -> {seen, bytes: [], stall: []}
let doc = null, heard = 0, problem = "", shown = new Set();

// ---- elements ----

function el(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  e.append(...children.filter((c) => c !== null));
  return e;
}
function svg(name, attributes, ...children) {
  const e = document.createElementNS(SVG, name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children);
  return e;
}
const card = (title, ...children) => el("section", {class: "card"}, el("h2", {}, title), ...children);
const wide = (title, ...children) => el("section", {class: "card wide"}, el("h2", {}, title), ...children);
const big = (text, unit) => el("div", {class: "big"}, text, " ", el("span", {class: "unit"}, unit || ""));
const row = (a, b) => el("div", {class: "row"}, el("span", {}, a), el("span", {}, b));
const small = (text) => el("p", {class: "small"}, text);

// ---- figures in words ----

function bytes(n) {
  let i = 0;
  for (n = n || 0; n >= 1000 && i < 5; i++) n /= 1000;
  return (i && n < 100 ? n.toFixed(1) : Math.round(n)) + " " + ["B", "kB", "MB", "GB", "TB", "PB"][i];
}
function count(n) {
  n = n || 0;
  return n < 10000 ? String(Math.round(n)) : n < 1e6 ? (n / 1e3).toFixed(1) + " k" : n < 1e9 ? (n / 1e6).toFixed(1) + " M" : (n / 1e9).toFixed(1) + " G";
}
const percent = (part, all) => (all > 0 ? (100 * part / all).toFixed(part > 0 && part < all / 100 ? 2 : 0) + " %" : "–");
const dollars = (nano) => "$" + ((nano || 0) / 1e9).toFixed(nano > 0 && nano < 1e9 ? 4 : 2);
function since(s) {
  return s < 120 ? Math.round(s) + " s" : s < 7200 ? Math.round(s / 60) + " min" : s < 172800 ? Math.round(s / 3600) + " h" : Math.round(s / 86400) + " days";
}
const jobName = (j) => j.job || "without a name";
const path = (...parts) => "#/" + parts.map(encodeURIComponent).join("/");

// ---- pictures; each has its meaning as text too ----

// parts: [[class, amount, words]]
function bar(parts, whole, label) {
  const total = Math.max(whole, parts.reduce((s, p) => s + p[1], 0), 1);
  const s = svg("svg", {class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": label});
  let x = 0;
  for (const [kind, n] of parts) {
    const w = 100 * n / total;
    s.append(svg("rect", {class: kind, x: x, y: 0, width: w, height: 10}));
    x += w;
  }
  return s;
}
function legend(parts) {
  return el("ul", {class: "legend"}, ...parts.map(([kind, words]) => el("li", {}, el("span", {class: "key " + kind}), words)));
}
function line(points, kind, label, klass) {
  const w = 200, h = 40, most = Math.max(...points, 1e-9);
  const at = points.map((v, i) => [w * (POINTS - points.length + i) / (POINTS - 1), h - 2 - (h - 5) * v / most]);
  const s = svg("svg", {class: klass || "spark", viewBox: "0 0 200 40", preserveAspectRatio: "none", role: "img", "aria-label": label});
  if (at.length > 1) {
    const d = at.map((p, i) => (i ? "L" : "M") + p[0].toFixed(1) + " " + p[1].toFixed(1)).join("");
    s.append(svg("path", {class: "area " + kind, d: d + "L200 40L" + at[0][0].toFixed(1) + " 40Z"}));
    s.append(svg("path", {class: "line " + kind, d: d, "vector-effect": "non-scaling-stroke"}));
  }
  return s;
}
function windowBar(o) {
  const n = Math.max(o.length, 1), x = (v) => 100 * Math.min(v, n) / n;
  return svg("svg", {class: "window", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img",
    "aria-label": "epoch " + o.epoch + ": " + percent(o.at, n) + " read, " + count(o.ahead) + " samples fetched ahead"},
    svg("rect", {class: "rest", x: 0, y: 2, width: 100, height: 6}),
    svg("rect", {class: "memory", x: 0, y: 2, width: x(o.at), height: 6, opacity: 0.35}),
    svg("rect", {class: "disk", x: x(o.at), y: 2, width: Math.max(x(o.at + o.ahead) - x(o.at), 0.4), height: 6}),
    svg("rect", {class: "memory", x: Math.max(x(o.at) - 0.3, 0), y: 0, width: 0.6, height: 10}));
}

// columns: [[title, "n" or "name" or "", cell(row), optional]]
function table(key, rows, columns) {
  const all = shown.has(key), body = el("tbody");
  for (const r of all ? rows : rows.slice(0, ROWS)) {
    body.append(el("tr", {}, ...columns.map(([, kind, cell, more]) => {
      const c = cell(r);
      return el("td", {class: kind + (more ? " optional" : "")}, typeof c === "string" && kind === "name" ? el("bdi", {}, c) : c);
    })));
  }
  const parts = [el("table", {}, el("thead", {}, el("tr", {}, ...columns.map(([t, kind, , more]) => el("th", {class: kind + (more ? " optional" : ""), scope: "col"}, t)))), body)];
  if (rows.length > ROWS) {
    const b = el("button", {class: "more", type: "button"}, all ? "Show the first " + ROWS : "Show all " + rows.length);
    b.addEventListener("click", () => { if (all) shown.delete(key); else shown.add(key); draw(); });
    parts.push(b);
  }
  return el("div", {}, ...parts);
}

// ---- history ----

const TIERS = [["memory", "memory_hits"], ["disk", "disk_hits"], ["peer", "peer_hits"], ["redis", "redis_hits"], ["bucket", "bucket_misses"]];
const REASONS = [["bucket", "stall_latency_ns", "bucket latency"], ["peer", "stall_bandwidth_ns", "bandwidth"], ["disk", "stall_disk_ns", "disk"], ["memory", "stall_memory_ns", "too little memory"], ["redis", "stall_client_ns", "order not known"]];
const stalled = (u) => REASONS.reduce((s, r) => s + (u[r[1]] || 0), 0);

function remember(key, time, usage, readers) {
  const h = history.get(key) || {bytes: [], stall: []}, stall = stalled(usage), read = usage.read_bytes || 0;
  if (h.time !== undefined && time > h.time) {
    const s = time - h.time;
    h.bytes.push(Math.max(read - h.read, 0) / s);
    h.stall.push(Math.min(Math.max(stall - h.waited, 0) / 1e9 / s / Math.max(readers || 1, 1), 1));
    for (const list of [h.bytes, h.stall]) if (list.length > POINTS) list.shift();
  }
  if (h.time === undefined || time > h.time) Object.assign(h, {time: time, read: read, waited: stall});
  history.set(key, h);
}
const jobKey = (j) => "job " + j.tenant + "/" + j.job;
const datasetKey = (d) => "dataset " + d.tenant + "/" + d.name + d.snapshot;
const last = (list) => (list.length ? list[list.length - 1] : 0);
function recall(key) { return history.get(key) || {bytes: [], stall: []}; }

function take(d) {
  for (const j of d.jobs || []) if (j.usage) remember(jobKey(j), d.time, j.usage, j.readers.sessions);
  for (const s of d.datasets || []) if (s.usage) remember(datasetKey(s), d.time, s.usage, s.readers.sessions);
  const live = new Set([...(d.jobs || []).map(jobKey), ...(d.datasets || []).map(datasetKey)]);
  for (const k of history.keys()) if (!live.has(k)) history.delete(k);
}

// ---- a node ----

function problems(d) {
  const list = (d.problems || []).map((p) => [p.what, p.remedy]);
  for (const j of d.jobs || []) if (j.advice && j.recent.waiting > 0.1) list.push(["Job " + jobName(j) + " " + j.advice + ".", ""]);
  for (const s of d.datasets || []) if (s.errors > 0) list.push(["Reads of " + s.name + " failed " + count(s.errors) + " times after all retries.", "See the daemon's log, and the rights of its credentials."]);
  if (!list.length) return el("section", {class: "card wide fine"}, el("span", {}, "Nothing is wrong."));
  return el("section", {class: "card wide problems", "aria-live": "polite"}, el("h2", {}, list.length === 1 ? "1 problem" : list.length + " problems"),
    el("ul", {}, ...list.map(([what, remedy]) => el("li", {}, el("strong", {}, what), " ", remedy || ""))));
}

function tiers(d) {
  const parts = [], m = d.memory;
  if (m) parts.push(row("Memory", bytes(m.used) + " of " + bytes(m.ceiling)), bar([["memory", m.used]], m.ceiling, "memory: " + percent(m.used, m.ceiling) + " used"));
  if (d.disk) {
    const room = d.disk.limit || d.disk.used + Math.max(d.disk.free - d.disk.keep_free, 0);
    parts.push(row("Disk", bytes(d.disk.used) + " of " + bytes(room)), bar([["disk", d.disk.used]], room, "disk: " + percent(d.disk.used, room) + " used"));
  } else if (m) {
    parts.push(small("There is no disk tier."));
  }
  return card("Tiers", ...parts);
}
function hitCard(u, title) {
  const all = TIERS.reduce((s, t) => s + (u[t[1]] || 0), 0), hits = u.memory_hits || 0;
  return card(title || "Reads by tier", big(percent(hits, all), "from memory, without a wait"),
    bar(TIERS.map(([k, n]) => [k, u[n] || 0]), 0, TIERS.map(([k, n]) => k + " " + percent(u[n] || 0, all)).join(", ")),
    legend(TIERS.filter(([, n]) => u[n]).map(([k, n]) => [k, k + " " + count(u[n])])));
}
function billCard(list) {
  const sum = (f) => list.reduce((s, d) => s + (f(d) || 0), 0);
  const paid = sum((d) => d.usage.money_nano), direct = sum((d) => d.direct_nano), requests = sum((d) => d.usage.requests), would = sum((d) => d.direct_requests);
  return card("Bill, estimated", big(dollars(paid), "direct reading: " + dollars(direct)),
    row("Requests", count(requests) + " of " + count(would)), bar([["bucket", requests]], would, requests + " requests; direct reading: " + would),
    row("Bytes from the bucket", bytes(sum((d) => d.usage.bytes)) + " of " + bytes(sum((d) => d.usage.read_bytes))),
    bar([["bucket", sum((d) => d.usage.bytes)]], sum((d) => d.usage.read_bytes), "bytes from the bucket against bytes read"));
}
function stallCard(u) {
  const all = stalled(u);
  return card("Waits by reason", big(since(all / 1e9), "in all"), bar(REASONS.map(([k, n]) => [k, u[n] || 0]), 0, REASONS.map(([, n, w]) => w + " " + percent(u[n] || 0, all)).join(", ")),
    legend(REASONS.filter(([, n]) => u[n]).map(([k, n, w]) => [k, w + " " + percent(u[n], all)])));
}
function sums(list) {
  const u = {};
  for (const x of list) for (const [k, v] of Object.entries(x.usage || {})) u[k] = (u[k] || 0) + v;
  return u;
}
function jobTable(jobs) {
  if (!jobs.length) return small("No job has read here yet.");
  return table("jobs", jobs, [
    ["Job", "name", (j) => el("a", {href: path("job", j.tenant, j.job)}, el("bdi", {}, jobName(j)))],
    ["Readers", "n", (j) => String(j.readers.sessions)],
    ["Throughput", "", (j) => line(recall(jobKey(j)).bytes, "memory", "throughput of the last two minutes"), true],
    ["", "n", (j) => bytes(last(recall(jobKey(j)).bytes)) + "/s"],
    ["Waiting", "", (j) => line(recall(jobKey(j)).stall, "late", "share of time that it waited"), true],
    ["", "n", (j) => { const w = last(recall(jobKey(j)).stall); return el("span", {class: w > 0.1 ? "warn" : ""}, percent(w, 1)); }],
    ["Epoch", "", (j) => (j.order ? windowBar(j.order) : "–"), true],
  ]);
}
function datasetTable(list) {
  if (!list.length) return small("No dataset is open.");
  const sorted = [...list].sort((a, b) => b.readers.sessions - a.readers.sessions || (b.usage.read_bytes || 0) - (a.usage.read_bytes || 0));
  return table("datasets", sorted, [
    ["Dataset", "name", (s) => el("a", {href: path("dataset", s.tenant, s.name)}, el("bdi", {}, s.name))],
    ["Readers", "n", (s) => String(s.readers.sessions)],
    ["Samples", "n", (s) => count(s.samples), true],
    ["Size", "n", (s) => bytes(s.bytes)],
    ["In memory", "n", (s) => percent(s.memory_bytes, s.bytes)],
    ["On disk", "n", (s) => percent(s.disk_bytes || 0, s.bytes), true],
    ["Read", "n", (s) => bytes(s.usage.read_bytes)],
    ["Requests", "n", (s) => count(s.usage.requests), true],
    ["Cost", "n", (s) => dollars(s.usage.money_nano), true],
  ]);
}
function nodeView(d) {
  const jobs = [...d.jobs].sort((a, b) => b.readers.sessions - a.readers.sessions || (b.usage.read_bytes || 0) - (a.usage.read_bytes || 0));
  const u = sums(d.datasets);
  return [problems(d), el("div", {class: "grid"}, d.memory ? tiers(d) : null, hitCard(u), stallCard(u), billCard(d.datasets)),
    wide("Jobs", jobTable(jobs)), wide("Datasets", datasetTable(d.datasets), d.other_datasets ? small("And " + d.other_datasets + " more, which are summed.") : null),
    d.work ? wide("Work queues", table("work", d.work, [["Class", "", (w) => w.class], ["Running", "n", (w) => w.running + " of " + w.threads], ["Waiting", "n", (w) => String(w.queued)], ["Longest wait", "n", (w) => w.waiting_s.toFixed(2) + " s"]]),
      small("Longest turn of the event loop: " + d.loop_longest_ms.toFixed(1) + " ms")) : null];
}
function epochTable(j) {
  if (!j.epochs.length) return small("The job has announced no order.");
  const all = (e) => e.reused + e.prefetched + e.late;
  return table("epochs", j.epochs, [["Epoch", "n", (e) => String(e.epoch)],
    ["Reads", "", (e) => bar([["memory", e.reused], ["disk", e.prefetched], ["late", e.late]], 0, "reused, prefetched, late")],
    ["Reused", "n", (e) => percent(e.reused, all(e))], ["Prefetched", "n", (e) => percent(e.prefetched, all(e))], ["Late", "n", (e) => percent(e.late, all(e))]]);
}
function jobView(d, tenant, name) {
  const j = d.jobs.find((x) => x.job === name && (x.tenant || "") === tenant);
  if (!j) return gone("This job");
  const h = recall(jobKey(j));
  return [el("h1", {}, "Job ", el("bdi", {}, jobName(j))), el("div", {class: "grid"},
    card("Throughput", big(bytes(last(h.bytes)) + "/s", count(j.readers.per_s) + " samples/s without waits"), line(h.bytes, "memory", "throughput of the last two minutes", "chart")),
    card("Waiting", big(percent(last(h.stall), 1), "of the last second"), line(h.stall, "late", "share of time that it waited", "chart")),
    hitCard(j.usage), stallCard(j.usage)),
    j.advice ? el("section", {class: "card wide"}, el("bdi", {}, jobName(j)), " " + j.advice + ".") : null,
    j.order ? wide("Epoch " + j.order.epoch + ": " + percent(j.order.at, j.order.length), windowBar(j.order),
      legend([["memory", "read: " + count(j.order.at) + " of " + count(j.order.length)], ["disk", "fetched ahead: " + count(j.order.ahead) + "; window " + count(j.readers.window)]])) : null,
    wide("Hit share by epoch", epochTable(j)),
    wide("Dataset", datasetTable(d.datasets.filter((s) => s.name === j.dataset)))];
}
function datasetView(d, tenant, name) {
  const list = d.datasets.filter((x) => x.name === name && (x.tenant || "") === tenant);
  if (!list.length) return gone("This dataset");
  const s = list[0], b = s.bucket;
  return [el("h1", {}, "Dataset ", el("bdi", {}, s.name)), el("div", {class: "grid"},
    card("Where it is", row("Memory", bytes(s.memory_bytes) + " of " + bytes(s.bytes)), bar([["memory", s.memory_bytes]], s.bytes, "in memory"),
      row("Disk", bytes(s.disk_bytes || 0) + " of " + bytes(s.bytes)), bar([["disk", s.disk_bytes || 0]], s.bytes, "on disk"), small(count(s.samples) + " samples, snapshot " + s.snapshot)),
    hitCard(s.usage), stallCard(s.usage), billCard(list),
    card("Bucket", row("Requests under way", b.in_flight + " of " + b.limit), row("Waiting", count(b.queued)), row("Median", b.p50_ms.toFixed(1) + " ms"), row("99th percentile", b.p99_ms.toFixed(1) + " ms"),
      row("Throughput", bytes(b.bytes_per_s) + "/s"), row("Retries", count(s.retries)), row("Errors", count(s.errors)), el("p", {class: "small"}, el("bdi", {}, s.url)))),
    wide("Jobs", jobTable(d.jobs.filter((j) => j.dataset === s.name)))];
}

// ---- the page ----

function gone(what) {
  return [wide("Not here", el("p", {}, what + " is not here, or no longer. "), el("a", {href: "#/"}, "Show everything"))];
}
function place() {
  try {
    return location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch (e) {
    return [""];
  }
}
function view(d) {
  const [what, a, b] = place();
  if (what === "job") return jobView(d, a || "", b || "");
  if (what === "dataset") return datasetView(d, a || "", b || "");
  return nodeView(d);
}
function draw() {
  const state = document.getElementById("state"), main = document.getElementById("main"), parts = place();
  const age = heard ? (Date.now() - heard) / 1000 : 0, stale = problem !== "" || age > 5;
  state.className = stale ? "stale" : "";
  state.textContent = stale ? (heard ? "no figures for " + since(age) : "no figures yet") + (problem ? ": " + problem : "") : doc ? (doc.name || "dlcache") + " " + doc.version + ", up " + since(doc.uptime_s || 0) : "connecting";
  document.getElementById("trail").replaceChildren(...(parts[0] ? [el("span", {}, parts[0] + " "), el("bdi", {}, parts[parts.length - 1] || "without a name")] : []));
  if (!doc) return;
  const active = document.activeElement, key = active && main.contains(active) ? active.getAttribute("href") || active.textContent : null;
  main.replaceChildren(...view(doc).filter((x) => x !== null));
  if (key) for (const e of main.querySelectorAll("a, button")) if ((e.getAttribute("href") || e.textContent) === key) { e.focus({preventScroll: true}); break; }
}
function signIn(why) {
  document.getElementById("sign-in-why").textContent = why;
  document.getElementById("sign-in").hidden = false;
  document.getElementById("main").replaceChildren();
  document.getElementById("token").focus();
}

// EventSource cannot send a token, so the stream is read by hand.
async function follow() {
  const token = sessionStorage.getItem("token"), answer = await fetch("/v1/stream", {headers: token ? {Authorization: "Bearer " + token} : {}, cache: "no-store"});
  if (answer.status === 401 || answer.status === 403) {
    const said = await answer.json().catch(() => ({}));
    sessionStorage.removeItem("token");
    doc = null;
    signIn(said.detail || "A token is needed.");
    return false;
  }
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).detail || "status " + answer.status);
  const reader = answer.body.getReader(), decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return true;
    rest += decoder.decode(value, {stream: true});
    const events = rest.split("\n\n");
    rest = events.pop();
    if (!events.length) continue;
    const next = JSON.parse(events[events.length - 1].replace(/^data: /, ""));
    if (next.kind === "error") {
      problem = next.text;
    } else {
      doc = next;
      heard = Date.now();
      problem = "";
      take(doc);
    }
    draw();
  }
}
async function run() {
  for (;;) {
    try {
      if (!await follow()) return;
    } catch (e) {
      problem = e.message || "the server does not answer";
      draw();
      await new Promise((r) => setTimeout(r, 2000 + Math.random() * 1000));
    }
  }
}

document.getElementById("sign-in").addEventListener("submit", (e) => {
  e.preventDefault();
  sessionStorage.setItem("token", document.getElementById("token").value.trim());
  document.getElementById("token").value = "";
  document.getElementById("sign-in").hidden = true;
  run();
});
window.addEventListener("hashchange", () => { draw(); document.getElementById("main").focus(); });
setInterval(draw, 5000);
run();
