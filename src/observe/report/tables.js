// Predicted values beside measured ones: the parts of a step's time, memory, traffic.
const axes = ['dp', 'tp', 'pp', 'cp', 'ep', 'world', 'file'];

// The visible parts of a step. Compute includes data and optimizer, which are also shown
// separately.
function partsOf(time) {
  if (!time) return [];
  const data = time.data || 0, optimizer = time.optimizer || 0;
  const parts = [['compute', time.compute - data - optimizer], ['optimizer', optimizer],
                 ['data', data]];
  const byAxis = axes.map(axis => [axis, (time.exposed || {})[axis] || 0]);
  const known = byAxis.reduce((sum, part) => sum + part[1], 0);
  for (const [axis, seconds] of byAxis) parts.push(['exposed ' + axis, seconds]);
  if (!time.exposed && time.exposed_comm - known > 0) {
    parts.push(['exposed', time.exposed_comm - known]);
  }
  parts.push(['bubble', time.bubble]);
  return parts.filter(part => part[1] > 5e-4 * time.step);
}
// The parts that occur, in a fixed order.
function namesOfParts(all) {
  const used = new Set(all.flatMap(parts => parts.map(part => part[0])));
  return ['compute', 'optimizer', 'data', ...axes.map(axis => 'exposed ' + axis), 'exposed',
          'bubble'].filter(name => used.has(name));
}
const partColor = name => `var(--time-${name.replace('exposed ', '')})`;

// A class of ranks, or a run that is compared, has a name.
const headOfRank = rank => rank.name || `rank ${rank.rank}`;

// Stacked bars. Rows are {rank, name, parts: [[name, amount]]}, grouped by rank; `head` replaces
// the name of the rank, and `total` the sum behind a bar, of which tiny parts are left out. `color` maps the name of a part to a colour, `text` formats an amount.
function stackedBars(rows, label, color, text) {
  const total = row => row.total ?? row.parts.reduce((sum, part) => sum + part[1], 0);
  const longest = Math.max(...rows.map(total), 1e-12);
  const hasNames = rows.some(row => row.name);
  const headOf = row => row.head || headOfRank(row.rank);
  const hasHeads = rows.some(row => row.head);
  const W = pictureWidth(true), L = hasNames ? 132 : hasHeads ? 104 : 74, R = 84;
  const isAbove = hasNames && rows.some(row => headOf(row).length > 11);  // it has a line of its own
  let y = 4;
  const picture = svg('svg', {role: 'img', 'aria-label': label});
  rows.forEach((row, i) => {
    const first = i === 0 || rows[i - 1].rank !== row.rank;
    if (first && i > 0 && hasNames) y += 8;
    if (first) {
      const name = svg('text', {x: 0, y: y + 13}, headOf(row));
      name.style.fill = 'var(--ink)';
      picture.append(name);
      if (isAbove) y += 18;
    }
    picture.append(svg('text', {x: L - 8, y: y + 13, 'text-anchor': 'end'}, row.name));
    let x = L;
    for (const [name, amount] of row.parts) {
      const width = amount / longest * (W - L - R);
      const bar = svg('rect', {x, y, width: Math.max(0, width - 0.5), height: 17,
                               fill: color(name)});
      bar.addEventListener('mousemove', event => showTip(event,
          `${headOf(row)}${row.name ? ', ' + row.name : ''}\n${name}: ${text(amount)}, ` +
          percentText(amount / total(row))));
      bar.addEventListener('mouseleave', hideTip);
      picture.append(bar);
      x += width;
    }
    picture.append(svg('text', {x: x + 6, y: y + 13}, text(total(row))));
    y += 20;
  });
  picture.setAttribute('viewBox', `0 0 ${W} ${y + 2}`);
  return picture;
}

// Two bars per rank: predicted above measured.
function timeBars(ranks) {
  const rows = ranks.flatMap(rank => ['predicted', 'measured'].map(name => ({
    rank, head: rank.name, name, parts: partsOf(rank.time[name]),
    total: (rank.time[name] || {}).step}))).filter(row => row.parts.length);
  const names = namesOfParts(rows.map(row => row.parts));
  return [html('div', 'bar', ...names.map(name => legendKey(partColor(name), name))),
          stackedBars(rows, 'time of a step by what it was spent on', partColor, secondsText)];
}

function timeTable(ranks) {
  const names = namesOfParts(ranks.flatMap(rank => [partsOf(rank.time.predicted),
                                                    partsOf(rank.time.measured)]));
  const rows = [];
  for (const rank of ranks) {
    for (const side of ['predicted', 'measured']) {
      const time = rank.time[side];
      if (!time) continue;
      const parts = Object.fromEntries(partsOf(time));
      rows.push([side === 'predicted' ? headOfRank(rank) : '', side,
                 ...names.map(name => secondsText(parts[name] || 0)), secondsText(time.step),
                 side === 'measured' ? errorText(rank.time.predicted.step, time.step) : '']);
    }
  }
  return table(['', '', ...names, 'step (median)', 'error'], rows);
}

// The mean of objects of numbers, key by key; an object in an object likewise.
function meanOf(all) {
  return Object.fromEntries(Object.keys(all[0]).map(key => [key, typeof all[0][key] === 'object' ?
      meanOf(all.map(one => one[key] || {})) :
      all.reduce((sum, one) => sum + (one[key] || 0), 0) / all.length]));
}

// "0-3, 8" for sorted numbers.
function numberRanges(numbers) {
  const ranges = [];
  for (const n of numbers) {
    const last = ranges.at(-1);
    if (last && n === last[1] + 1) last[1] = n;
    else ranges.push([n, n]);
  }
  const shown = ranges.slice(0, 3).map(([from, to]) => from === to ? String(from) : `${from}-${to}`);
  return shown.join(', ') + (ranges.length > 3 ? ', …' : '');
}

// Ranks of one class: those for which the plan predicts the same times. Measured times are means.
// Bytes are those of one rank: if measured bytes differ from predicted ones, of the rank where they
// differ most, else of the rank with the most.
function foldedClass(members) {
  const [first] = members, numbers = members.map(rank => rank.rank);
  const sum = bytes => Object.values(bytes || {}).reduce((total, one) => total + one, 0);
  const chosen = (what, amount) => {
    const sides = members.map(rank => rank[what]).filter(Boolean);
    const rate = ({predicted, measured}) =>
        [measured ? Math.abs(amount(measured) - amount(predicted)) : 0, amount(predicted)];
    return sides.sort((a, b) => rate(b)[0] - rate(a)[0] || rate(b)[1] - rate(a)[1])[0];
  };
  const timed = members.filter(rank => rank.time && rank.time.measured);
  return {...first, members: numbers,
          name: members.length === 1 ? `rank ${first.rank}` :
              `${members.length} ranks: ${numberRanges(numbers)}`,
          memory: chosen('memory', memory => memory.peak), traffic: chosen('traffic', sum),
          time: first.time && {...first.time, measured: timed.length ?
              meanOf(timed.map(rank => rank.time.measured)) : undefined}};
}

// All ranks. Of more than 16, one entry for each set of ranks with the same predicted times, and at
// most 16 of them.
function someRanks(summary) {
  const all = summary.ranks || [];
  if (all.length <= 16) return all;
  const classes = new Map();
  for (const rank of all) {
    const key = JSON.stringify((rank.time || {}).predicted);
    if (!classes.has(key)) classes.set(key, []);
    classes.get(key).push(rank);
  }
  return [...classes.values()].map(foldedClass).slice(0, 16);
}

// Says that rows are classes instead of ranks.
function foldedText(summary, shown) {
  if (!shown.some(rank => rank.members)) return null;
  const folded = shown.reduce((sum, rank) => sum + rank.members.length, 0);
  return html('p', 'soft', `${folded} of ${summary.ranks.length} ranks are shown, as ` +
      `${shown.length === 1 ? 'one class' : shown.length + ' classes'} of ranks with the same ` +
      'predicted times. Measured times are means over a class.');
}

function drawAttribution(summary) {
  const shown = someRanks(summary).filter(rank => rank.time);
  if (!shown.length) return;
  const error = summary.step_s_predicted && summary.step_s ? html('p', '',
      `A step was predicted to take ${secondsText(summary.step_s_predicted)} and took ` +
      `${secondsText(summary.step_s)} (median): the prediction is off by ` +
      `${errorText(summary.step_s_predicted, summary.step_s)}.` +
      (summary.hardware ? ` The prediction is for ${summary.hardware}.` : '')) : null;
  const details = html('details', 'card', html('summary', '', 'As a table'), timeTable(shown));
  fill('attribution', error, foldedText(summary, shown), html('div', 'card', ...timeBars(shown)),
       details);
}

// The traffic of experts depends on the router; the prediction assumes a balanced one.
function equality(predicted, measured, axis) {
  if (measured == null) return cell('soft', 'not measured');
  if (axis === 'ep') return cell('soft', 'assumes an even router: ' + errorText(predicted, measured));
  return measured === predicted ? cell('good', 'equal') :
      cell('bad', `differs by ${measured - predicted} bytes`);
}

function drawBytes(summary) {
  const shown = someRanks(summary).filter(rank => rank.memory);
  if (!shown.length) return;
  const classes = Object.keys(shown[0].memory.predicted).filter(
      name => name !== 'peak' && shown.some(rank => rank.memory.predicted[name] > 0));
  const memory = shown.map(rank => {
    const {predicted, measured} = rank.memory;
    return [headOfRank(rank), ...classes.map(name => bytesText(predicted[name])),
            bytesText(predicted.peak), measured ? bytesText(measured.peak) : '–',
            equality(predicted.peak, measured && measured.peak)];
  });
  const traffic = [];
  for (const rank of shown) {
    const {predicted, measured} = rank.traffic || {};
    if (!predicted) continue;
    const used = axes.filter(axis => predicted[axis] || (measured && measured[axis]));
    used.forEach((axis, i) => traffic.push([
      i ? '' : headOfRank(rank), axis, String(predicted[axis]),
      measured ? String(measured[axis]) : '–', equality(predicted[axis], measured && measured[axis], axis)]));
  }
  const isFolded = shown.some(rank => rank.members);
  fill('bytes', isFolded ? html('p', 'soft', 'Bytes of a class are those of its rank with the largest ' +
      'difference between both, or else with the most.') : null,
       html('div', 'card', html('h3', '', 'Highest memory in a step'),
       table(['', ...classes, 'in use at once, predicted', 'in use at once, measured', ''], memory),
       summary.rss_peak ? html('p', 'soft', 'The process of rank 0, with code, stacks and ' +
                               'libraries, had at most ' + bytesText(summary.rss_peak) +
                               ' in memory.') : null));
  if (!traffic.length) return;
  fill('bytes', html('div', 'card', html('h3', '', 'Payload sent in a step'),
       table(['', 'axis', 'bytes predicted', 'bytes measured', ''], traffic)));
}
