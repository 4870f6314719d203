// What failures will cost a planned run: the distribution of its effective share, the interval of
// its checkpoints, the time between failures by size, and losses by cause.
const timeUnits = [[86400, 'days', 4], [3600, 'h', 1], [60, 'min', 2], [1, 's', 1]];
function longTimeText(s) {
  if (s == null) return 'never';
  const [unit, name] = timeUnits.find(([size, , from]) => s >= size * from) || [];
  return unit ? +(s / unit).toPrecision(3) + ' ' + name : secondsText(s);
}
// The ticks of a logarithmic axis of times: whole seconds, minutes, hours and days.
function timeTicks(low, high) {
  const all = [1, 2, 5, 10, 20, 30].flatMap(n => [n, 60 * n]).concat(
      [1, 2, 5, 12].map(n => 3600 * n), [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000].map(
      n => 86400 * n)).sort((a, b) => a - b).filter(tick => tick >= low && tick <= high);
  const every = Math.ceil(all.length / 7);
  return all.filter((_, i) => i % every === 0);
}

// A picture with its own axes. `x` and `y` are {values, log, text, title}; lines, dots and bars are
// [{name, color, points: [[x, y]]}], bars have a `width`; marks are [{x, text}].
function axesPlot(title, x, y, {lines = [], dots = [], bars = [], marks = []}) {
  const W = pictureWidth(false), H = 230, L = 62, R = 16, B = 38;
  const xs = yScale(x.values, x.log, false), X = value => L + xs.at(value) * (W - L - R);
  // Marks at the same place share a text above the picture.
  const texts = [];
  for (const mark of [...marks].sort((a, b) => a.x - b.x)) {
    const same = texts.find(other => Math.abs(X(other.x) - X(mark.x)) < 2);
    if (same) same.text += ', ' + mark.text;
    else texts.push({...mark});
  }
  const T = 10 + 13 * texts.length;
  const card = html('div', 'card'), head = html('div', 'bar', html('h3', '', title));
  const named = [...lines, ...dots].filter(one => one.name);
  for (const one of named) head.append(legendKey(one.color, one.name));
  const picture = svg('svg', {viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': title});
  card.append(head, picture);
  const ys = yScale(y.values, y.log, y.zero);
  for (const [axis, scale] of [[x, xs], [y, ys]]) {
    if (axis.text !== longTimeText || !axis.log) continue;
    const ticks = timeTicks(Math.min(...axis.values), Math.max(...axis.values));
    if (ticks.length > 1) scale.ticks = ticks;
  }
  const Y = value => H - B - ys.at(value) * (H - T - B);
  for (const tick of ys.ticks) {
    picture.append(
        svg('line', {x1: L, x2: W - R, y1: Y(tick), y2: Y(tick), stroke: 'var(--line)'}),
        svg('text', {x: L - 7, y: Y(tick) + 4, 'text-anchor': 'end'}, y.text(tick)));
  }
  let freeFrom = 0;
  for (const tick of xs.ticks) {
    const half = 3.4 * x.text(tick).length;
    const at = Math.min(X(tick), W - half);  // the last one stays inside of the picture
    if (at - half < freeFrom) continue;
    picture.append(svg('text', {x: at, y: H - B + 15, 'text-anchor': 'middle'}, x.text(tick)));
    freeFrom = X(tick) + half + 6;
  }
  picture.append(svg('text', {x: W - R, y: H - 4, 'text-anchor': 'end'}, x.title));
  const withTip = (element, text) => {
    element.addEventListener('mousemove', event => showTip(event, text));
    element.addEventListener('mouseleave', hideTip);
    picture.append(element);
  };
  for (const one of bars) {
    for (const [from, amount] of one.points) {
      if (!amount) continue;
      withTip(svg('rect', {x: X(from), y: Y(amount), fill: one.color,
                           width: Math.max(1, X(from + one.width) - X(from) - 0.5),
                           height: Y(0) - Y(amount)}),
              `${x.text(from)} to ${x.text(from + one.width)}\n${y.text(amount)} ${y.title}`);
    }
  }
  texts.forEach((mark, i) => {
    const at = X(mark.x), atEnd = at > (W + L) / 2, row = 10 + 13 * i, width = 6.4 * mark.text.length;
    const fits = atEnd ? at - 4 - width > 0 : at + 4 + width < W;  // else it lies over its line
    picture.append(
        svg('line', {x1: at, x2: at, y1: row - 8, y2: H - B, stroke: 'var(--soft)',
                     'stroke-dasharray': '3 3'}),
        svg('text', {x: !fits ? W - 2 : at + (atEnd ? -4 : 4), y: row,
                     'text-anchor': atEnd || !fits ? 'end' : 'start'}, mark.text));
  });
  for (const one of lines) {
    const path = one.points.map((p, i) => `${i ? 'L' : 'M'}${X(p[0]).toFixed(1)} ${Y(p[1]).toFixed(1)}`);
    picture.append(svg('path', {d: path.join(''), fill: 'none', stroke: one.color,
                                'stroke-width': 1.8, 'stroke-dasharray': one.dashes || 'none'}));
  }
  for (const one of [...lines, ...dots]) {
    for (const p of one.points) {
      withTip(svg('circle', {cx: X(p[0]), cy: Y(p[1]), r: one.dashes || one.dots === false ? 0 : 3.4, fill: one.color}),
              `${one.name || title}\n${x.text(p[0])}: ${y.text(p[1])}`);
    }
  }
  return card;
}

function shareDistribution({effective}) {
  const {from, width, runs} = effective.distribution;
  const points = runs.map((count, i) => [from + i * width, count]);
  const digits = Math.max(1, Math.min(4, Math.ceil(-Math.log10(width * runs.length)) - 1));
  return axesPlot(`Effective share in ${effective.runs} simulated runs`,
      {values: [from, from + width * runs.length], text: share => percentText(share, digits),
       title: 'effective share'},
      {values: [0, ...runs], text: count => String(Math.round(count)), title: 'runs', zero: true},
      {bars: [{color: 'var(--s0)', points, width}],
       marks: [['p05', '5 % of the runs'], ['mean', 'mean'], ['p95', '95 %']].map(
           ([key, text]) => ({x: effective[key], text}))});
}

function shareByInterval(goodput) {
  const {curve, intervals, tiers} = goodput, tier = tiers[0];
  if (curve.length < 2) return null;
  const shares = curve.flatMap(point => [point.simulated, point.formula]);
  const inside = interval => interval >= curve[0].interval_s && interval <= curve.at(-1).interval_s;
  return axesPlot(`Effective share by the interval of checkpoints ${
                      tier === 'disk' ? 'on disk' : 'in memory'}`,
      {values: curve.map(point => point.interval_s), log: true, text: longTimeText,
       title: 'training between two saves'},
      {values: shares, text: share => percentText(share, 2)},
      {lines: [{name: 'simulated', color: 'var(--s0)',
                points: curve.map(point => [point.interval_s, point.simulated])},
               {name: 'formula', color: 'var(--s1)', dashes: '5 3',
                points: curve.map(point => [point.interval_s, point.formula])}],
       marks: [['young', 'Young'], ['daly', 'Daly'], ['simulation', 'best simulated']]
           .map(([key, text]) => ({x: intervals[key][tier], text})).filter(mark => inside(mark.x))});
}

function mttfBySize({mttf_by_devices: rows, devices}) {
  const known = rows.filter(row => row.mttf_s != null);
  if (known.length < 2) return null;
  const published = known.filter(row => row.published_s);
  return axesPlot('Mean time between failures by devices',
      {values: known.map(row => row.devices), log: true, text: countText, title: 'devices'},
      {values: known.flatMap(row => [row.mttf_s, row.published_s || row.mttf_s]), log: true,
       text: longTimeText},
      {lines: [{name: published.length ? 'expected' : '', color: 'var(--s0)',
                points: known.map(row => [row.devices, row.mttf_s])}],
       dots: published.length ? [{name: 'measured by the source', color: 'var(--s1)',
                                  points: published.map(row => [row.devices, row.published_s])}]
                              : [],
       marks: [{x: devices, text: 'this run'}]});
}

function lossesByCause(goodput) {
  const causes = goodput.by_cause.filter(cause => cause.lost_s > 0)
      .sort((a, b) => b.lost_s - a.lost_s);
  if (!causes.length) return null;
  const names = {'until it trains again': 'var(--bad)', 'done again': 'var(--time-redone)'};
  const bars = causes.slice(0, 20).map(cause => ({
    rank: cause, name: cause.cause, head: ' ',
    parts: [['until it trains again', cause.down_s], ['done again', cause.redone_s]]}));
  const hasCost = causes.some(cause => cause.cost != null);
  const rows = causes.map(cause => [
    cause.cause, cell('text', cause.class), cell('text', cause.domain), numberText(cause.count),
    longTimeText(cause.lost_s), numberText(cause.device_hours),
    ...(hasCost ? [numberText(cause.cost)] : [])]);
  return [html('div', 'card', html('h3', '', 'Time lost by cause'),
               html('div', 'bar', ...Object.entries(names).map(([name, color]) =>
                   legendKey(color, name))),
               causeBars(bars, names)),
          html('details', 'card', html('summary', '', 'Causes as a table'),
               table(['cause', html('th', 'text', 'class'), html('th', 'text', 'takes'), 'count',
                      'lost', 'device hours', ...(hasCost ? ['cost'] : [])], rows))];
}

// Bars with the name of a cause before each.
function causeBars(rows, colors) {
  const W = pictureWidth(true), L = Math.min(210, W / 2), R = 84;
  const total = row => row.parts.reduce((sum, part) => sum + part[1], 0);
  const longest = Math.max(...rows.map(total), 1e-12);
  const picture = svg('svg', {role: 'img', 'aria-label': 'time lost by cause',
                              viewBox: `0 0 ${W} ${rows.length * 20 + 6}`});
  rows.forEach((row, i) => {
    const y = 4 + 20 * i;
    const most = Math.floor((L - 10) / 6.8);  // the tip of the bar and the table have the whole name
    const name = svg('text', {x: L - 8, y: y + 13, 'text-anchor': 'end'},
                     row.name.length > most ? row.name.slice(0, most - 1) + '…' : row.name);
    name.style.fill = 'var(--ink)';
    picture.append(name);
    let x = L;
    for (const [part, seconds] of row.parts) {
      const width = seconds / longest * (W - L - R);
      const bar = svg('rect', {x, y, width: Math.max(0, width - 0.5), height: 17,
                               fill: colors[part]});
      bar.addEventListener('mousemove', event => showTip(event,
          `${row.name}\n${part}: ${longTimeText(seconds)}`));
      bar.addEventListener('mouseleave', hideTip);
      picture.append(bar);
      x += width;
    }
    picture.append(svg('text', {x: x + 6, y: y + 13}, longTimeText(total(row))));
  });
  return picture;
}

function drawGoodput(goodput) {
  if (!goodput) return;
  const {effective, lost, configured} = goodput, count = goodput.by_cause.reduce(
      (sum, cause) => sum + cause.count, 0);
  fill('goodput',
       html('p', '', `With the rates of ${goodput.rates} (${goodput.source}), a job of ` +
            `${goodput.devices} devices fails once in ${longTimeText(goodput.mttf_s)}: ` +
            `${numberText(count)} times in ${numberText(goodput.days)} days. ` +
            `${percentText(effective.mean)} of the time is effective (${
                percentText(effective.p05)} to ${percentText(effective.p95)} in 90 % of the ` +
            `runs). Of the rest, ${percentText(lost.down, 2)} pass until it trains again, ` +
            `${percentText(lost.redone, 2)} of the time are done again, and ` +
            `${percentText(lost.saving, 2)} are spent on saving.` +
            (configured ? ` With the intervals as configured, ${
                percentText(configured.effective)} are effective.` : '') +
            ` ${goodput.spares} of ${goodput.hosts} hosts should stand by.`));
  const charts = html('div', 'charts');
  for (const card of [shareDistribution(goodput), shareByInterval(goodput), mttfBySize(goodput)]) {
    if (card) charts.append(card);
  }
  const changes = goodput.changes.map(change => [
    cell('text', change.change), percentText(change.effective, 2),
    (change.gain >= 0 ? '+' : '−') + (100 * Math.abs(change.gain)).toFixed(2) + ' points']);
  if (changes.length) {
    charts.append(html('div', 'card', html('h3', '', 'What would raise the share'),
                       table([html('th', 'text', 'change'), 'effective share', 'gain'], changes)));
  }
  fill('goodput', charts, html('p', ''), ...(lossesByCause(goodput) || []));
}
