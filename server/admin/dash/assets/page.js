// The live part of the page: the chart, the figures that change every second, and when the rest is fetched anew. Everything else is made by the server and brought by htmx.
"use strict";
(() => {
  const keep = 900;   // seconds of the chart that are remembered
  const shown = 300;  // seconds of the chart that are shown
  const bands = 14;   // PoPs with a band of their own; the rest share one
  const byId = (id) => document.getElementById(id);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const calm = matchMedia("(prefers-reduced-motion: reduce)");

  // The address had a token, for a browser that needed none.
  if (location.hash && !document.querySelector("a[href='" + CSS.escape(location.hash) + "']") && !byId(location.hash.slice(1))) {
    history.replaceState(null, "", location.pathname);
  }

  // ---- what was answered ----

  let names = [];      // of the PoPs, in the order of the samples
  let samples = [];    // {t: seconds, answers: [...]}, oldest first
  let order = [];      // of the bands, from west to east: indices into names
  let rest = [];       // PoPs that share the last band
  let marks = [];      // {t, text}: what was done
  let chart = null;

  // longitude of a PoP, from its place on the map.
  const west = (name) => {
    const g = document.querySelector(".pop[data-pop='" + CSS.escape(name) + "']");
    return g ? Number(g.getAttribute("transform").slice(10).split(" ")[0]) : 0;
  };

  const colour = (i, n) => {
    const light = dark.matches ? (i % 2 ? 50 : 62) : (i % 2 ? 66 : 54);
    return "hsl(" + Math.round(205 + 330 * i / Math.max(n, 1)) % 360 + " " + (dark.matches ? 48 : 58) + "% " + light + "%)";
  };

  // Which PoPs have a band: those with most answers over all that is known, so that a drained one keeps its own.
  const arrange = () => {
    const total = names.map(() => 0);
    for (const s of samples) s.answers.forEach((a, i) => { total[i] += a; });
    const most = names.map((_, i) => i).sort((a, b) => total[b] - total[a]);
    const own = most.slice(0, names.length > bands + 1 ? bands : names.length);
    rest = most.slice(own.length);
    const before = order.join();
    order = own.sort((a, b) => west(names[a]) - west(names[b]));
    if (order.join() !== before) draw();
  };

  const colourOf = (pop) => {
    const i = order.indexOf(names.indexOf(pop));
    return i < 0 ? "" : colour(i, order.length);
  };

  // rows are the chart's data: the sum of each band and all below it, smoothed over three seconds.
  const rows = () => {
    const n = order.length + (rest.length ? 1 : 0);
    const t = [], sums = Array.from({ length: n }, () => []);
    const from = samples.length ? samples[samples.length - 1].t - shown - 3 : 0;
    samples.forEach((s, k) => {
      if (s.t < from) return;
      t.push(s.t);
      const near = samples.slice(Math.max(0, k - 2), k + 1);
      const mean = (i) => near.reduce((sum, x) => sum + (x.answers[i] || 0), 0) / near.length;
      let sum = 0;
      if (rest.length) sums[n - 1].push(sum += rest.reduce((r, i) => r + mean(i), 0));
      for (let b = order.length - 1; b >= 0; b--) sums[b].push(sum += mean(order[b]));
    });
    return [t, ...sums];
  };

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const draw = () => {
    const at = byId("chart");
    if (chart) chart.destroy();
    chart = null;
    if (!names.length) return;
    const axis = { stroke: style("--faint"), grid: { stroke: style("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const series = order.map((_, i) => ({ fill: colour(i, order.length), stroke: colour(i, order.length), width: 0, points: { show: false } }));
    if (rest.length) series.push({ fill: style("--line"), stroke: style("--line"), width: 0, points: { show: false } });
    chart = new uPlot({
      width: at.clientWidth, height: at.clientHeight || 260,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
      scales: { x: { time: true, range: () => { const end = samples.length ? samples[samples.length - 1].t : Date.now() / 1000; return [Math.max(end - shown, Math.min(end - 60, samples.length ? samples[0].t : end)), end]; } }, y: { range: (_, __, max) => [0, Math.max(1, max * 1.22)] } },
      axes: [{ ...axis, space: 76, size: 28, values: (_, at) => at.map((t) => new Date(t * 1000).toLocaleTimeString([], { hour12: false })) }, { ...axis, size: 40 }],
      series: [{}, ...series],
      hooks: { draw: [drawMarks], setCursor: [read] },
    }, rows(), at);
  };

  // drawMarks draws a line where something was done.
  const drawMarks = (u) => {
    const c = u.ctx, ratio = devicePixelRatio || 1, box = u.bbox;
    c.save();
    c.font = 11 * ratio + "px system-ui, sans-serif";
    c.textBaseline = "top";
    c.textAlign = "left";
    const free = [box.left, box.left, box.left]; // three lines of names
    for (const m of marks) {
      const x = u.valToPos(m.t, "x", true);
      if (x < box.left || x > box.left + box.width) continue;
      c.strokeStyle = style("--ink");
      c.globalAlpha = 0.75;
      c.lineWidth = ratio;
      c.setLineDash([3 * ratio, 3 * ratio]);
      c.beginPath(); c.moveTo(x, box.top); c.lineTo(x, box.top + box.height); c.stroke();
      c.globalAlpha = 1;
      const wide = c.measureText(m.text).width + 8 * ratio;
      const left = Math.min(x + 3 * ratio, box.left + box.width - wide);
      const line = free.findIndex((f) => left >= f);
      if (line < 0) continue;
      const top = box.top + (2 + 17 * line) * ratio;
      c.fillStyle = style("--card");
      c.globalAlpha = 0.82;
      c.fillRect(left, top, wide, 16 * ratio);
      c.globalAlpha = 1;
      c.fillStyle = style("--ink");
      c.fillText(m.text, left + 4 * ratio, top + 2 * ratio);
      free[line] = left + wide + 4 * ratio;
    }
    c.restore();
  };

  const usual = byId("reading") ? byId("reading").textContent : "";

  // read says which band is under the pointer, and how much it is.
  const read = (u) => {
    const i = u.cursor.idx, line = byId("reading");
    if (i == null || u.cursor.left < 0) { line.textContent = usual; return; }
    const y = u.posToVal(u.cursor.top, "y");
    let band = -1;
    for (let s = u.data.length - 1; s > 0; s--) {
      if (y <= u.data[s][i]) { band = s; break; }
    }
    if (band < 0) { line.textContent = usual; return; }
    const below = band + 1 < u.data.length ? u.data[band + 1][i] : 0;
    const name = band <= order.length ? names[order[band - 1]] : rest.length + " smaller PoPs";
    line.textContent = name + ": " + figure(u.data[band][i] - below) + " answers a second at " + new Date(u.data[0][i] * 1000).toLocaleTimeString();
  };

  const figure = (f) => f >= 100 ? f.toFixed(0) : f >= 10 ? f.toFixed(1).replace(/\.0$/, "") : f.toFixed(1).replace(/\.0$/, "");

  const percent = (f) => f > 0 && f < 0.05 ? "<0.1 %" : f.toFixed(1).replace(/\.0$/, "") + " %";

  // figures puts the last seconds into the table and onto the map.
  const figures = () => {
    const near = samples.slice(-3);
    if (!near.length) return;
    const mean = names.map((_, i) => near.reduce((s, x) => s + (x.answers[i] || 0), 0) / near.length);
    const most = Math.max(1, ...mean);
    const some = samples.slice(-15), all = names.map((_, i) => some.reduce((s, x) => s + (x.answers[i] || 0), 0)), sum = all.reduce((s, x) => s + x, 0);
    byId("queries").textContent = figure(near.reduce((s, x) => s + x.queries, 0) / near.length);
    names.forEach((name, i) => {
      const q = CSS.escape(name);
      const rate = document.querySelector("tr[data-pop='" + q + "'] .rate");
      if (rate) rate.textContent = figure(mean[i]);
      const part = document.querySelector("tr[data-pop='" + q + "'] .part");
      if (part) part.textContent = sum > 0 ? percent(100 * all[i] / sum) : "";
      const swatch = document.querySelector("tr[data-pop='" + q + "'] .swatch");
      if (swatch) swatch.style.backgroundColor = colourOf(name) || "transparent";
      const halo = document.querySelector(".pop[data-pop='" + q + "'] .halo");
      if (halo) halo.setAttribute("r", mean[i] > 0.05 ? (9 + 27 * Math.sqrt(mean[i] / most)).toFixed(1) : "0");
    });
  };

  const take = (rates) => {
    if (rates.pops && rates.pops.join() !== names.join()) {
      names = rates.pops;
      samples = [];
    }
    // The past may come after the present: it is asked for when the stream is already open.
    const known = new Set(samples.map((s) => s.t)), all = rates.samples.map((s) => ({ t: Date.parse(s.time) / 1000, answers: s.answers, queries: s.queries }));
    samples = samples.concat(all.filter((s) => !known.has(s.t))).sort((a, b) => a.t - b.t);
    if (samples.length > keep) samples = samples.slice(-keep);
  };

  const paint = () => {
    if (document.hidden) return;
    arrange();
    figures();
    if (chart) chart.setData(rows());
  };

  // ---- the stream ----

  const link = byId("link");
  const state = (s, text) => { link.dataset.state = s; link.textContent = text; };

  let due = 0;
  // refresh fetches the live part of the page anew, soon and not twice.
  const refresh = () => {
    if (due || document.hidden) return;
    due = setTimeout(() => { due = 0; htmx.trigger("#live", "refresh"); }, 120);
  };

  const follow = () => {
    const events = new EventSource("/v1/events?rates=true");
    events.onopen = () => {
      fetch("/v1/rates").then((r) => r.json()).then((r) => { take(r); paint(); }).catch(() => {});
      refresh();
    };
    events.addEventListener("rates", (e) => {
      state("live", "live");
      take(JSON.parse(e.data).rates);
      paint();
    });
    for (const kind of ["history", "view", "reload", "alert", "missed"]) events.addEventListener(kind, refresh);
    events.onerror = () => {
      state("lost", "not connected: what you see is old");
      if (events.readyState === EventSource.CLOSED) {
        events.close();
        setTimeout(() => fetch("/v1/caller").then((r) => { if (r.status === 401) location.assign("/login"); else follow(); }).catch(follow), 2000);
      }
    };
  };

  // ---- the rest ----

  // sift leaves the rows that are looked for.
  const sift = () => {
    const text = byId("find").value.trim().toLowerCase(), notable = byId("notable").checked;
    for (const tr of document.querySelectorAll("#endpoints tbody tr")) {
      const pop = tr.dataset.pop;
      if (!pop) { tr.hidden = tr.previousElementSibling.hidden; continue; }
      tr.hidden = !pop.includes(text) || notable && tr.classList.contains("up");
    }
  };

  const remember = () => {
    marks = [...document.querySelectorAll(".entries li[data-what]")]
      .filter((li) => li.dataset.what && ["accepted", "replaced", "edited", "overridden", "lifted", "expired", "merged"].includes(li.dataset.action))
      .map((li) => ({ t: Number(li.dataset.time) / 1000, text: (li.dataset.action === "lifted" || li.dataset.action === "expired" ? li.dataset.action + ": " : "") + li.dataset.what }))
      .reverse();
  };

  const start = () => {
    remember();
    if (!byId("chart")) return;
    follow();
    setInterval(refresh, 10000);
    byId("filter").addEventListener("input", sift);
    byId("filter").addEventListener("submit", (e) => e.preventDefault());
    document.addEventListener("visibilitychange", () => { if (!document.hidden) { refresh(); paint(); } });
    dark.addEventListener("change", () => { draw(); figures(); });
    new ResizeObserver(() => {
      if (chart && byId("chart").clientWidth !== chart.width) chart.setSize({ width: byId("chart").clientWidth, height: byId("chart").clientHeight });
    }).observe(byId("chart"));
  };

  // What was seen and is the same is left alone: focus, selection and what is open stay.
  const seen = new Map();
  document.body.addEventListener("htmx:oobBeforeSwap", (e) => {
    const all = document.createElement("div");
    all.append(e.detail.fragment.cloneNode(true));
    const id = e.detail.target.id, html = all.innerHTML;
    if (seen.get(id) === html) { e.detail.shouldSwap = false; return; }
    seen.set(id, html);
    e.detail.target.dataset.open = [...e.detail.target.querySelectorAll("details[open][id]")].map((d) => d.id).join(" ");
  });
  document.body.addEventListener("htmx:oobAfterSwap", (e) => {
    for (const id of (e.detail.target.dataset.open || "").split(" ")) if (id && byId(id)) byId(id).open = true;
    if (e.detail.target.id === "endpoints") sift();
    figures();
    remember();
  });

  // While the form is being changed, what stands below it is not what the button would do.
  const stale = () => {
    const button = byId("pull-button");
    if (button) button.disabled = true;
    const effect = byId("effect");
    if (effect) effect.setAttribute("aria-busy", "true");
  };
  let edits = 0, asked = 0; // changes of the form, and how many the preview knows that is on its way
  document.body.addEventListener("input", (e) => {
    const form = e.target.form;
    if (!form || form.id !== "lever") return;
    edits++;
    stale();
    if (!form.contains(e.target)) htmx.trigger(form, "input"); // what is to be overridden stands in the preview
  });
  document.body.addEventListener("htmx:beforeRequest", (e) => { if (e.detail.elt.id === "lever") asked = edits; });
  document.body.addEventListener("htmx:afterSwap", (e) => {
    const id = e.detail.target.id;
    if (id === "effect") e.detail.target.setAttribute("aria-busy", "false");
    if (id === "effect" && asked !== edits) stale();
    if (id === "act") {
      const at = e.detail.target.querySelector("[data-focus], #done, #lever-drain");
      e.detail.target.scrollIntoView({ block: "nearest", behavior: calm.matches ? "auto" : "smooth" });
      if (at) at.focus({ preventScroll: true });
    }
    if (id === "explained") place();
  });
  // The button of a preview comes to life when htmx has taken its form over: before, a click would send the form as browsers do.
  document.body.addEventListener("htmx:afterSettle", (e) => {
    const button = byId("pull-button");
    if (button && e.detail.target.id === "effect" && asked === edits) button.disabled = button.dataset.live === undefined;
  });
  document.body.addEventListener("acted", refresh);

  // place shows on the map where the client is that was explained, and where it goes.
  const place = () => {
    const svg = byId("client-place"), facts = document.querySelector("#explained .facts");
    svg.replaceChildren();
    if (!facts || !facts.dataset.x) return;
    const make = (name, attributes) => {
      const el = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const k in attributes) el.setAttribute(k, attributes[k]);
      svg.append(el);
    };
    const x = Number(facts.dataset.x), y = Number(facts.dataset.y);
    for (const pop of facts.dataset.possible.split(" ")) {
      const g = document.querySelector(".pop[data-pop='" + CSS.escape(pop) + "']");
      if (!g) continue;
      const [px, py] = g.getAttribute("transform").slice(10, -1).split(" ").map(Number);
      make("path", { class: "way", d: "M" + x + " " + y + "Q" + (x + px) / 2 + " " + (Math.min(y, py) - Math.hypot(px - x, py - y) / 5) + " " + px + " " + py });
    }
    make("circle", { class: "client", cx: x, cy: y, r: 5 });
  };

  start();
})();
