// Curves over the run: loss, throughput, learning rate, gradient norm. Several runs share one
// chart.
const curveChoices = {x: 'step', y: 'linear'};

// Returns the position of a metrics line on the x axis.
function xOf(run, line) {
  if (curveChoices.x === 'time') return (line.time - run.begin_time) / 60;
  if (curveChoices.x === 'tokens') return (line.step || 0) * run.tokens_per_step;
  return line.step;
}
const xTitle = {step: 'step', tokens: 'tokens', time: 'minutes'};

function pointsOf(run, lines, key) {
  return lines.filter(line => line[key] != null).map(line => [xOf(run, line), line[key]]);
}

// A running average with a memory of about a sixtieth of the points.
function smooth(points) {
  const keep = Math.exp(-1 / Math.max(1, points.length / 60));
  let sum = 0, mass = 0;
  return points.map(([x, y]) => {
    sum = sum * keep + y;
    mass = mass * keep + 1;
    return [x, sum / mass];
  });
}

// Returns 1, 2 or 5 times a power of ten.
function niceStep(length, count) {
  const rough = length / count, power = Math.pow(10, Math.floor(Math.log10(rough)));
  return [1, 2, 5].map(factor => factor * power).find(step => step >= rough) || 10 * power;
}

// The y axis of a chart: the map from values to [0, 1], and the ticks.
function yScale(values, log, fromZero) {
  const usable = log ? values.filter(y => y > 0) : values;
  let low = Math.min(...usable), high = Math.max(...usable);
  if (log) {
    if (high / low < 1.01) { low *= 0.9; high *= 1.1; }
    const at = y => (Math.log(y) - Math.log(low)) / (Math.log(high) - Math.log(low));
    const ticks = [];
    const fine = high / low < 30 ? [1, 1.5, 2, 3, 4, 5, 6, 7, 8] : high / low < 1e4 ? [1, 3] : [1];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
      for (const factor of fine) {
        const tick = factor * Math.pow(10, power);
        if (tick >= low && tick <= high) ticks.push(tick);
      }
    }
    return {at, ticks: ticks.length > 1 ? ticks : [low, high]};
  }
  if (fromZero) low = Math.min(0, low);
  if (high === low) high = low + (Math.abs(low) * 0.1 || 1);
  // The axis begins and ends with a tick.
  const step = niceStep(high - low, 5), first = Math.floor(low / step + 1e-9), ticks = [];
  const last = Math.max(first + 1, Math.ceil(high / step - 1e-9));
  for (let i = first; i <= last; i++) ticks.push(+(i * step).toPrecision(12));
  [low, high] = [ticks[0], ticks.at(-1)];
  return {at: y => (y - low) / (high - low), ticks};
}

// The x axis of a chart: the map from values to [0, 1], its inverse, and the ticks.
function xScale(values, log, count) {
  if (log) {
    const low = Math.min(...values), high = Math.max(...values), ratio = high / low, ticks = [];
    if (ratio < 1.01) return {at: () => 0.5, value: () => low, ticks: [low]};
    const every = Math.ceil(Math.log10(ratio) / count);  // powers of ten between two ticks
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
      for (const factor of ratio < 20 ? [1, 2, 5] : [1]) {
        const tick = +(factor + 'e' + power);
        if (power % every === 0 && tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
      }
    }
    return {at: x => Math.log(x / low) / Math.log(ratio), ticks,
            value: part => low * Math.pow(ratio, part)};
  }
  const x0 = Math.min(...values), x1 = Math.max(...values), ticks = [];
  if (x0 === x1) return {at: () => 0.5, value: () => x0, ticks: [x0]};  // all points lie at one place
  // Between two steps there is no step.
  const step = Math.max(niceStep(x1 - x0, count), values.every(Number.isInteger) ? 1 : 0);
  for (let i = Math.ceil(x0 / step); i * step <= x1; i++) ticks.push(+(i * step).toPrecision(12));
  // The axis ends with a number: that of the last point, in the place of a tick too close to it.
  if (ticks.length && x1 - ticks.at(-1) < 0.4 * step) ticks.pop();
  ticks.push(x1);
  return {at: x => (x - x0) / (x1 - x0), value: part => x0 + part * (x1 - x0), ticks};
}

function nearest(points, x) {
  let low = 0, high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < x) low = middle + 1; else high = middle;
  }
  return low > 0 && x - points[low - 1][0] < points[low][0] - x ? points[low - 1] : points[low];
}

// series: [{name, color, points, width, dash, dots, bare, noKey}]; a bare one has no line, one with
// noKey is not in the legend. A point may have
// a text behind its coordinates, which its dot shows, then a colour of its own, and whether its dot is
// hollow. Options: wide; log: the y axis follows the
// choice of the page; zero: it begins at 0; most: higher values are drawn there; logX; xTitle;
// ticks: numbers; xTicks: [[x, text]], with room beside the outer ones; marks: [{x, text, more}]; noLegend; noTip,
// of a chart of dots; mostInTip: number of series that the tip names, the lowest first.
function chart(title, series, options = {}) {
  series = series.filter(one => one.points.length);
  if (!series.length) return null;
  const log = options.log && curveChoices.y === 'log';
  const card = html('div', 'card' + (options.wide ? ' wide' : ''));
  const head = html('div', 'bar', html('h3', '', title));
  const keys = series.length > 1 && !options.noLegend ? series.filter(one => !one.noKey) : [];
  head.append(...keys.map(one => legendKey(one.color, one.name)));
  const W = pictureWidth(options.wide), roomy = W > 700;
  const H = roomy ? 320 : options.wide ? 290 : 210;
  const L = 56, R = 14, T = 8, B = 34;
  const picture = svg('svg', {viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': title});
  card.append(head, picture);
  const all = series.flatMap(one => one.points), most = options.most ?? Infinity;
  if (all.some(point => point[1] > most)) {
    head.append(html('span', 'soft', `higher losses are drawn at ${numberText(most)}`));
  }
  const outer = options.xTicks ? [-0.5, options.xTicks.length - 0.5] : [];
  const x = xScale([...all.map(point => point[0]), ...outer], options.logX, roomy ? 10 : W > 400 ? 5 : 3);
  const y = yScale(all.map(point => Math.min(most, point[1])), log, options.zero);
  const title_x = options.xTitle || xTitle[curveChoices.x];
  const X = value => L + x.at(value) * (W - L - R);
  const floor = options.noTip ? 14 : 0;  // dots stay away from the texts below
  const height = value => H - B - floor - y.at(value) * (H - T - B - floor);
  const Y = value => height(Math.min(most, value));
  for (const tick of y.ticks) {
    picture.append(
        svg('line', {x1: L, x2: W - R, y1: height(tick), y2: height(tick), stroke: 'var(--line)'}),
        svg('text', {x: L - 7, y: height(tick) + 4, 'text-anchor': 'end'}, numberText(tick)));
  }
  const ticks = (options.ticks || x.ticks).map(tick => [tick, numberText(tick)]);
  for (const [value, text] of options.xTicks || ticks) {
    const atEnd = X(value) + 3.4 * String(text).length > W - 2;
    picture.append(svg('text', {x: atEnd ? W - 1 : X(value), y: H - B + 15,
                                'text-anchor': atEnd ? 'end' : 'middle'}, text));
  }
  picture.append(svg('text', {x: W - R, y: H - 4, 'text-anchor': 'end'}, title_x));
  let freeFrom = 0;
  for (const mark of options.marks || []) {
    if (x.at(mark.x) < 0 || x.at(mark.x) > 1) continue;
    const line = svg('line', {x1: X(mark.x), x2: X(mark.x), y1: T, y2: H - B, stroke: 'var(--soft)',
                              'stroke-dasharray': '3 3'});
    line.append(svg('title', {}, mark.more ? `${mark.text}, ${mark.more}` : mark.text));
    picture.append(line);
    if (X(mark.x) < freeFrom) continue;  // its text would lie on the one before
    const width = 7 * mark.text.length, atEnd = X(mark.x) + width > W - R;
    const isBelow = atEnd && X(mark.x) - width < freeFrom;
    const fitsNowhere = atEnd && X(mark.x) - 4 - width < L;  // on either side: it lies over its line
    picture.append(svg('text', {x: fitsNowhere ? W - R : X(mark.x) + (atEnd ? -4 : 4), y: T + (isBelow ? 24 : 10),
                                'text-anchor': atEnd ? 'end' : 'start'}, mark.text));
    freeFrom = X(mark.x) + 8 + width;
  }
  for (const one of series) {
    const drawn = one.points.filter(point => !log || point[1] > 0);
    const path = drawn.map((p, i) => (i ? 'L' : 'M') + X(p[0]).toFixed(1) + ' ' +
                                     Y(p[1]).toFixed(1)).join('');
    if (!one.bare) {
      picture.append(svg('path', {d: path, fill: 'none', stroke: one.color,
                                  'stroke-width': one.width || 1.8, 'stroke-linejoin': 'round',
                                  ...(one.dash && {'stroke-dasharray': one.dash})}));
    }
    if (!one.dots && drawn.length !== 1) continue;  // a line needs two points
    for (const p of drawn) {
      const color = p[3] || one.color;
      const dot = svg('circle', {cx: X(p[0]), cy: Y(p[1]), r: options.noTip ? 4.5 : 3.2,
                                 ...(p[4] ? {fill: 'var(--card)', stroke: color, 'stroke-width': 2}
                                          : {fill: color})});
      if (p[2]) {
        dot.addEventListener('mousemove', event => showTip(event, p[2]));
        dot.addEventListener('mouseleave', hideTip);
      }
      picture.append(dot);
    }
  }
  if (options.noTip) return card;
  const cross = svg('line', {y1: T, y2: H - B, stroke: 'var(--soft)', visibility: 'hidden'});
  picture.append(cross);
  picture.addEventListener('mousemove', event => {
    const box = picture.getBoundingClientRect();
    const wanted = x.value(((event.clientX - box.left) / box.width * W - L) / (W - L - R));
    const near = nearest(series[0].points, wanted)[0];
    cross.setAttribute('x1', X(near));
    cross.setAttribute('x2', X(near));
    cross.setAttribute('visibility', 'visible');
    const named = series.map(one => [one, ...nearest(one.points, wanted)]);
    if (named.length > (options.mostInTip ?? Infinity)) named.sort((a, b) => a[2] - b[2]);
    const lines = named.slice(0, options.mostInTip).map(([one, at, value]) => {
      const where = at === near ? '' : ` (at ${numberText(at)})`;
      return (series.length > 1 ? one.name + ': ' : '') + +value.toPrecision(6) + where;
    });
    showTip(event, [`${title_x} ${numberText(near)}`, ...lines].join('\n'));
  });
  picture.addEventListener('mouseleave', () => {
    cross.setAttribute('visibility', 'hidden');
    hideTip();
  });
  return card;
}

const runColor = index => `var(--s${index % 8})`;

function lossSeries(run, index, alone) {
  const name = alone ? '' : run.name + ' ';
  const losses = pointsOf(run, run.metrics.train, 'loss');
  const validation = pointsOf(run, run.metrics.eval, 'val_loss');
  if (alone) {
    return [{name: 'each step', color: 'var(--faint)', points: losses, width: 1},
            {name: 'smoothed', color: 'var(--s0)', points: smooth(losses), width: 2.2},
            {name: 'validation', color: 'var(--s1)', points: validation, dots: true}];
  }
  return [{name: run.name, color: runColor(index), points: smooth(losses)},
          {name: name + 'validation', color: runColor(index), points: validation, dots: true,
           width: 1, noKey: true}];
}

function marksOf(run) {
  const marks = [];
  // A failure that was survived has a mark of its own, so its restart needs none.
  for (const line of run.metrics.restart) {
    if (!line.ms) marks.push({x: xOf(run, line), text: 'resumed'});
  }
  for (const line of run.metrics.failure) {
    const back = line.goes_back_to != null ? ', goes back' : '';
    const text = line.class ? `${line.number}: ${line.class}${back}` : 'failed';
    marks.push({x: xOf(run, line), text, more: line.cause + remedyOf(line)});
  }
  for (const line of run.metrics.skip || []) {
    const last = line.first_sample + line.samples - 1;
    marks.push({x: xOf(run, line), text: 'samples left out',
                more: `samples ${line.first_sample} to ${last}`});
  }
  return marks.sort((a, b) => a.x - b.x);
}

function drawCurves(runs) {
  const charts = html('div', 'charts');
  const unit = runs.every(run => countedUnit(run) === 'image') ? 'image' : 'token';
  xTitle.tokens = unit + 's';
  const draw = () => {
    charts.replaceChildren();
    const alone = runs.length === 1;
    const add = card => { if (card) charts.append(card); };
    const dots = !alone && runs.some(run => run.metrics.eval.length) ? '; with dots: validation' : '';
    add(chart(`Loss (nats per ${unit}${dots})`, runs.flatMap((run, i) => lossSeries(run, i, alone)),
              {wide: true, log: true, marks: alone ? marksOf(runs[0]) : []}));
    const simple = (title, key, options) =>
        add(chart(title, runs.map((run, i) => ({name: run.name, color: alone ? 'var(--soft)' : runColor(i),
                                                points: pointsOf(run, run.metrics.train, key)})),
                  options));
    simple(`${unit === 'image' ? 'Images' : 'Tokens'} per second`, 'tokens_per_s', {zero: true});
    simple('Learning rate', 'lr', {zero: true});
    simple('Gradient norm, before clipping', 'grad_norm', {zero: true, log: true});
    simple('MFU', 'mfu', {zero: true});
    simple('Most visited expert, over the mean', 'expert_max_over_mean', {});
    simple('Auxiliary loss of the routers, unweighted (even: 1)', 'aux_loss', {});
    simple('z-loss of the routers, unweighted', 'z_loss', {});
    if (runs.some(run => run.metrics.train.some(line => line.dropped_visits))) {
      simple('Visits dropped by full experts', 'dropped_visits', {zero: true});
    }
    if (alone) add(expertMap(runs[0]));
  };
  const controls = html('div', 'bar', html('span', 'soft', 'over'),
      choice('curve-x', [['step', 'steps'], ['tokens', xTitle.tokens], ['time', 'time']], 'step',
             value => { curveChoices.x = value; draw(); }),
      html('span', 'soft', 'loss and norm'),
      choice('curve-y', [['linear', 'linear'], ['log', 'log']], 'linear',
             value => { curveChoices.y = value; draw(); }));
  onRedraw(draw);
  draw();
  if (charts.children.length) fill('curves', controls, charts);
}
