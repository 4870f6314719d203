#include "train/report_page.h"

namespace trireme {

std::string_view report_page() {
  return R"page(<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Trireme run</title>
<style>
:root { --bg:#fbfaf8; --card:#fff; --ink:#1d2430; --soft:#667085; --line:#e4e2dd; --a:#1f6feb;
  --b:#d9480f; --c:#2b8a3e; --d:#8250df; --faint:#9ec1f7; }
@media (prefers-color-scheme: dark) { :root { --bg:#12151b; --card:#1a1f28; --ink:#e6e9ef;
  --soft:#98a2b3; --line:#2c3440; --a:#6ea8fe; --b:#ff922b; --c:#69db7c; --d:#c4a1ff;
  --faint:#35507a; } }
* { box-sizing:border-box } body { margin:0; background:var(--bg); color:var(--ink);
  font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif }
main { max-width:1080px; margin:0 auto; padding:32px 20px 64px }
h1 { font-size:26px; margin:0 } h2 { font-size:17px; margin:36px 0 10px }
.soft { color:var(--soft) } .card { background:var(--card); border:1px solid var(--line);
  border-radius:10px; padding:14px 16px; overflow:hidden }
.tiles { display:grid; grid-template-columns:repeat(auto-fit,minmax(150px,1fr)); gap:12px;
  margin-top:20px } .tile b { display:block; font-size:21px; font-weight:600 }
.charts { display:grid; grid-template-columns:repeat(auto-fit,minmax(320px,1fr)); gap:12px }
.wide { grid-column:1/-1 } svg { display:block; width:100% } svg text { fill:var(--soft);
  font:11px system-ui,sans-serif } table { border-collapse:collapse; width:100% }
td,th { text-align:right; padding:5px 10px; border-bottom:1px solid var(--line);
  font-variant-numeric:tabular-nums } td:first-child,th:first-child { text-align:left }
th { font-weight:500; color:var(--soft) } .bar { height:8px; border-radius:4px;
  background:var(--a); min-width:1px } pre { margin:0; white-space:pre-wrap; overflow-wrap:anywhere;
  font:13px/1.45 ui-monospace,Menlo,monospace } details summary { cursor:pointer; font-weight:500 }
.key { display:inline-block; width:10px; height:10px; border-radius:2px; margin:0 5px 0 12px }
#tip { position:fixed; pointer-events:none; background:var(--ink); color:var(--bg); padding:4px 8px;
  border-radius:5px; font-size:12px; display:none; z-index:2 }
button { font:inherit; color:inherit; background:none; border:1px solid var(--line);
  border-radius:6px; padding:2px 10px; cursor:pointer }
</style></head><body><main>
<h1 id="title"></h1><div class="soft" id="subtitle"></div><div class="tiles" id="tiles"></div>
<h2>Curves</h2><div class="charts" id="charts"></div>
<h2>Memory of rank 0</h2><div class="card"><table id="memory"></table></div>
<h2>Time of a step</h2><div class="card"><table id="time"></table></div>
<h2>Timeline</h2><div class="card"><div class="soft" id="legend"></div>
<svg id="timeline" height="120" role="img" aria-label="timeline of the traced steps"></svg>
<p class="soft">Wheel zooms, dragging moves. <button id="reset">whole</button></p></div>
<h2>Samples</h2><div id="samples"></div>
<h2>How it was run</h2><div class="card"><pre id="how"></pre></div><br>
<div class="card"><details><summary>Configuration</summary><pre id="config"></pre></details></div>
</main><div id="tip"></div>
<script id="data" type="application/json">@@DATA@@</script>
<script>
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const el = id => document.getElementById(id), NS = 'http://www.w3.org/2000/svg';
const summary = data.summary || {}, metrics = data.metrics, run = metrics.run[0] || {};
const node = (name, attributes, text) => { const n = document.createElementNS(NS, name);
  for (const k in attributes) n.setAttribute(k, attributes[k]);
  if (text !== undefined) n.textContent = text; return n; };
const html = (name, text, cls) => { const n = document.createElement(name);
  if (text !== undefined) n.textContent = text; if (cls) n.className = cls; return n; };
const bytes = b => { const u = ['B','KiB','MiB','GiB','TiB']; let i = 0;
  while (b >= 1024 && i < 4) { b /= 1024; i++; } return (i ? b.toFixed(1) : b) + ' ' + u[i]; };
const count = c => { const u = ['','k','M','B','T']; let i = 0;
  while (c >= 1000 && i < 4) { c /= 1000; i++; } return (i ? c.toFixed(1) : Math.round(c)) + u[i]; };
const seconds = s => s == null ? '-' : s < 1e-3 ? (s*1e6).toFixed(0) + ' us' : s < 1 ?
  (s*1e3).toFixed(1) + ' ms' : s < 120 ? s.toFixed(2) + ' s' : (s/60).toFixed(1) + ' min';
const number = v => v == null ? '-' : Math.abs(v) >= 1e4 ? count(v) : +v.toPrecision(4) + '';
const tip = el('tip');
const show_tip = (event, text) => { tip.textContent = text; tip.style.display = 'block';
  tip.style.left = Math.min(event.clientX + 12, innerWidth - 220) + 'px';
  tip.style.top = event.clientY + 14 + 'px'; };
const hide_tip = () => { tip.style.display = 'none'; };

// Title and key numbers.
const last = metrics.train[metrics.train.length - 1] || {};
const evals = metrics.eval.filter(e => e.val_loss != null), best = evals[evals.length - 1];
el('title').textContent = data.name || 'Run';
document.title = 'Trireme: ' + (data.name || 'run');
el('subtitle').textContent = [run.cpu, run.host && 'on ' + run.host, run.version &&
  'version ' + run.version, run.commit && 'commit ' + run.commit,
  metrics.failure.length ? 'FAILED: ' + metrics.failure[metrics.failure.length-1].cause :
  summary.end].filter(Boolean).join(', ');
const tile = (name, value) => { if (value == null) return; const d = html('div', undefined, 'card tile');
  d.append(html('span', name, 'soft'), html('b', value)); el('tiles').append(d); };
tile('parameters', summary.params && count(summary.params));
tile('steps', last.step);
tile('training loss', last.loss != null ? last.loss.toFixed(4) : null);
tile('validation loss', best ? best.val_loss.toFixed(4) : null);
tile('bits per byte', best && best.bits_per_byte ? best.bits_per_byte.toFixed(3) : null);
tile('tokens per second', summary.tokens_per_s ? count(summary.tokens_per_s) : null);
tile('MFU', summary.mfu != null ? (100 * summary.mfu).toFixed(1) + ' %' : null);
tile('training time', summary.seconds ? seconds(summary.seconds) : null);

// A chart of series [{name, color, points: [[x, y]], dots, width}].
function chart(title, series, options = {}) {
  const card = html('div', undefined, 'card' + (options.wide ? ' wide' : ''));
  const head = html('div'); head.append(html('b', title)); card.append(head);
  series = series.filter(s => s.points.length);
  if (!series.length) return;
  for (const s of series) if (series.length > 1) { const k = html('span', undefined, 'key');
    k.style.background = s.color; head.append(k, html('span', s.name, 'soft')); }
  const W = options.wide ? 1040 : 500, H = options.wide ? 300 : 190, L = 52, R = 12, T = 10, B = 24;
  const svg = node('svg', {viewBox: `0 0 ${W} ${H}`}); card.append(svg);
  const all = series.flatMap(s => s.points), xs = all.map(p => p[0]), ys = all.map(p => p[1]);
  let x0 = Math.min(...xs), x1 = Math.max(...xs), y0 = Math.min(...ys), y1 = Math.max(...ys);
  if (x1 === x0) x1 = x0 + 1; if (options.zero) y0 = Math.min(0, y0);
  if (y1 === y0) { y1 += Math.abs(y1) * .1 + 1e-9; } else y1 += (y1 - y0) * .04;
  const X = x => L + (x - x0) / (x1 - x0) * (W - L - R), Y = y => H - B - (y - y0) / (y1 - y0) * (H - T - B);
  const step = n => { const e = Math.pow(10, Math.floor(Math.log10(n))); const m = n / e;
    return (m < 1.5 ? 1 : m < 3.5 ? 2 : m < 7.5 ? 5 : 10) * e; };
  const dy = step((y1 - y0) / 5), dx = step((x1 - x0) / 6);
  for (let y = Math.ceil(y0 / dy) * dy; y <= y1; y += dy) {
    svg.append(node('line', {x1: L, x2: W - R, y1: Y(y), y2: Y(y), stroke: 'var(--line)'}),
      node('text', {x: L - 6, y: Y(y) + 4, 'text-anchor': 'end'}, number(+y.toFixed(12)))); }
  for (let x = Math.ceil(x0 / dx) * dx; x <= x1; x += dx)
    svg.append(node('text', {x: X(x), y: H - 6, 'text-anchor': 'middle'}, number(x)));
  for (const s of series) {
    svg.append(node('path', {d: s.points.map((p, i) => (i ? 'L' : 'M') + X(p[0]).toFixed(1) + ' ' +
      Y(p[1]).toFixed(1)).join(''), fill: 'none', stroke: s.color, 'stroke-width': s.width || 1.6,
      'stroke-linejoin': 'round'}));
    if (s.dots) for (const p of s.points) svg.append(node('circle', {cx: X(p[0]), cy: Y(p[1]), r: 3.2, fill: s.color})); }
  svg.addEventListener('mousemove', event => { const box = svg.getBoundingClientRect();
    const x = x0 + ((event.clientX - box.left) / box.width * W - L) / (W - L - R) * (x1 - x0);
    show_tip(event, series.map(s => { const p = s.points.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a);
      return (series.length > 1 ? s.name + ' ' : '') + number(p[1]) + ' at ' + p[0]; }).join('; ')); });
  svg.addEventListener('mouseleave', hide_tip);
  el('charts').append(card);
}
const points = key => metrics.train.filter(t => t[key] != null).map(t => [t.step, t[key]]);
function smooth(list) { const weight = Math.exp(-1 / Math.max(1, list.length / 60)); let mean, mass = 0, sum = 0;
  return list.map(([x, y]) => { sum = sum * weight + y; mass = mass * weight + 1; return [x, sum / mass]; }); }
const losses = points('loss');
chart('Loss (nats per token)', [{name: 'step', color: 'var(--faint)', points: losses, width: 1},
  {name: 'smoothed', color: 'var(--a)', points: smooth(losses), width: 2},
  {name: 'validation', color: 'var(--b)', points: evals.map(e => [e.step, e.val_loss]), dots: true}], {wide: true});
chart('Tokens per second', [{color: 'var(--c)', points: points('tokens_per_s')}], {zero: true});
chart('Learning rate', [{color: 'var(--d)', points: points('lr')}], {zero: true});
chart('Gradient norm', [{color: 'var(--b)', points: points('grad_norm')}], {zero: true});
chart('MFU', [{color: 'var(--a)', points: points('mfu')}], {zero: true});

// Memory and time, predicted beside measured.
const rank = (summary.ranks || [])[0] || {}, memory = rank.memory || {};
function row(table, cells, head) { const r = html('tr'); for (const c of cells) { const cell = html(head ? 'th' : 'td');
  if (c instanceof Node) cell.append(c); else cell.textContent = c; r.append(cell); } table.append(r); }
if (memory.predicted) { const table = el('memory'), measured = (memory.measured || {}).peak;
  row(table, ['', 'predicted', 'measured', ''], true);
  for (const k in memory.predicted) { const bar = html('div', undefined, 'bar');
    bar.style.width = 260 * memory.predicted[k] / Math.max(1, memory.predicted.peak) + 'px';
    const same = k === 'peak' && measured != null ? bytes(measured) + (measured === memory.predicted.peak ?
      ' (equal to the byte)' : ' (differs by ' + (measured - memory.predicted.peak) + ' bytes)') : '';
    row(table, [k, bytes(memory.predicted[k]), same, bar]); }
  if (summary.rss_peak) row(table, ['resident set of the process', '', bytes(summary.rss_peak), '']); }
const time = rank.time || {};
if (time.predicted) { row(el('time'), ['', 'predicted', 'measured'], true);
  for (const k in time.predicted) row(el('time'), [k.replace('_', ' '), seconds(time.predicted[k]),
    seconds((time.measured || {})[k])]); }

// The timeline of the traced steps: one row per track, zoomed by the wheel, moved by dragging.
const spans = ((data.trace || {}).traceEvents || []).filter(e => e.ph === 'X');
const colors = {forward: 'var(--a)', backward: 'var(--b)', backward_input: 'var(--b)',
  backward_weight: 'var(--d)', optimizer: 'var(--c)', gradient_sum: 'var(--soft)'};
if (spans.length) {
  const rows = [...new Set(spans.map(s => s.pid + ':' + s.tid))].sort(), svg = el('timeline');
  for (const k in colors) if (spans.some(s => s.cat === k)) { const key = html('span', undefined, 'key');
    key.style.background = colors[k]; el('legend').append(key, html('span', k.replace('_', ' '))); }
  const begin = Math.min(...spans.map(s => s.ts)), end = Math.max(...spans.map(s => s.ts + s.dur));
  const H = 30, height = rows.length * H + 24; svg.setAttribute('height', height);
  let from = begin, to = end;
  function draw() { svg.replaceChildren(); const W = svg.clientWidth || 1000;
    svg.setAttribute('viewBox', `0 0 ${W} ${height}`);
    const X = t => (t - from) / (to - from) * W;
    for (const s of spans) { const x = X(s.ts), w = Math.max(.6, X(s.ts + s.dur) - x - .5);
      if (x > W || x + w < 0) continue; const y = rows.indexOf(s.pid + ':' + s.tid) * H + 2;
      const r = node('rect', {x, y, width: w, height: H - 5, rx: 2, fill: colors[s.cat] || 'var(--soft)', 'fill-opacity': .8});
      r.addEventListener('mousemove', e => show_tip(e, s.name + ' (' + (s.cat || '').replace('_', ' ') + '): ' +
        seconds(s.dur / 1e6) + (s.args && s.args.step ? ', step ' + s.args.step : '')));
      r.addEventListener('mouseleave', hide_tip); svg.append(r);
      if (w > 7 * s.name.length + 8) { const t = node('text', {x: Math.max(0, x) + 5, y: y + 16,
        'pointer-events': 'none', style: 'fill:#fff'}, s.name); svg.append(t); } }
    for (let i = 0; i <= 6; i++) svg.append(node('text', {x: Math.min(W - 46, i * W / 6 + 2), y: height - 6},
      seconds((from + (to - from) * i / 6 - begin) / 1e6))); }
  svg.addEventListener('wheel', e => { e.preventDefault(); const box = svg.getBoundingClientRect();
    const at = from + (e.clientX - box.left) / box.width * (to - from), f = e.deltaY < 0 ? .8 : 1.25;
    from = Math.max(begin, at - (at - from) * f); to = Math.min(end, at + (to - at) * f); draw(); }, {passive: false});
  let drag = null; svg.addEventListener('mousedown', e => { drag = [e.clientX, from, to]; });
  addEventListener('mouseup', () => { drag = null; });
  addEventListener('mousemove', e => { if (!drag) return; const move = (drag[0] - e.clientX) / svg.clientWidth * (drag[2] - drag[1]);
    const shift = Math.max(begin - drag[1], Math.min(end - drag[2], move)); from = drag[1] + shift; to = drag[2] + shift; draw(); });
  el('reset').addEventListener('click', () => { from = begin; to = end; draw(); });
  addEventListener('resize', draw); draw();
} else el('legend').textContent = 'No steps were traced (trace.first_step, trace.steps).';

// Samples, newest first; configuration and how to run it again.
for (const s of metrics.sample.slice().reverse()) { const card = html('div', undefined, 'card');
  card.append(html('div', 'after step ' + s.step, 'soft'), html('pre', s.text)); el('samples').append(card, html('br')); }
if (!metrics.sample.length) el('samples').append(html('p', 'None were drawn (run.sample_every).', 'soft'));
el('how').textContent = 'trireme train config.resolved.toml --out NEW_FOLDER\n\n' +
  Object.entries(summary.environment || {}).map(([k, v]) => k + ': ' + v).join('\n') +
  (summary.mfu_formula ? '\nMFU: ' + summary.mfu_formula + ', peak_flops ' + count(summary.peak_flops || 0) : '') +
  (summary.flops_convention ? '\nmodel FLOPs: ' + summary.flops_convention : '');
el('config').textContent = data.config;
</script></body></html>
)page";
}

}  // namespace trireme
