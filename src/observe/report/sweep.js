// The page of a sweep: its trials side by side, or the curve of a learning-rate range test.
const sweepLegend = 12;  // with more trials, the chart has no legend: the table has their colours

// Few trials have the colours of runs; of many, the best is blue and the last one orange.
function trialColor(index, sweep) {
  const count = sweep.trials.length;
  if (count <= 8) return runColor(index);
  const part = 200 * sweep.ranking.indexOf(index) / (count - 1);
  const mix = (from, to, share) =>
      `color-mix(in oklab, var(--${to}) ${share.toFixed(1)}%, var(--${from}))`;
  return part <= 100 ? mix('s0', 's4', part) : mix('s4', 's1', part - 100);
}

const resultOf = trial => trial.val_loss ?? trial.loss;
const lossText = loss => loss == null ? '–' : loss.toFixed(4);

function stateCell(trial, isBest) {
  const bad = trial.state === 'diverged' || trial.state === 'failed';
  const element = cell(isBest ? 'good' : bad ? 'bad' : 'soft',
                       isBest ? 'best' : trial.state);
  if (trial.reason) element.title = trial.reason;
  return element;
}

function trialTable(sweep) {
  const {trials, keys, ranking} = sweep;
  const validated = trials.some(trial => trial.val_loss != null);
  const rows = ranking.map(index => {
    const trial = trials[index], head = html('td', '');
    const link = html('a', '', trial.name);
    link.setAttribute('href', trial.name + '/report.html');
    const key = legendKey(trialColor(index, sweep), '');
    key.append(trial.steps ? link : trial.name);
    head.append(key);
    return [head, ...trial.values, stateCell(trial, index === sweep.best), String(trial.steps),
            lossText(trial.loss), ...(validated ? [lossText(trial.val_loss)] : [])];
  });
  return table(['', ...keys.map(key => key.key), 'state', 'steps',
                'training loss', ...(validated ? ['lowest validation loss'] : [])], rows);
}

function trialCurves(sweep) {
  const {trials} = sweep, count = trials.length;
  const first = Math.max(0, ...trials.map(trial => (trial.curve[0] || [0, 0])[1]));
  const series = trials.map((trial, index) => ({
    name: trial.name, color: trialColor(index, sweep), points: smooth(trial.curve),
    width: index === sweep.best ? 3 : 1.4, dash: trial.state === 'finished' ? '' : '4 3'}));
  const marks = sweep.grace_step == null ? [] :
      [{x: sweep.grace_step, text: 'trials are compared from here on'}];
  const colours = count > 8 ? '; blue: the best, orange: the last' : '';
  return chart('Loss of all trials, smoothed (nats per token)' + colours, series,
               {wide: true, log: true, most: 1.15 * first, noLegend: count > sweepLegend,
                mostInTip: 12, marks});
}

// True if the ratios of neighbouring values are more alike than their differences, as in 8,16,32
// and 1e-4,3e-4,1e-3. Two values are if one is ten times the other.
function isSpacedByFactors(numbers) {
  const ordered = [...new Set(numbers)].sort((a, b) => a - b);
  if (ordered.length < 2 || ordered[0] <= 0) return false;
  const spread = gap => {
    const gaps = ordered.slice(1).map((number, i) => gap(ordered[i], number));
    return Math.max(...gaps) / Math.min(...gaps);
  };
  if (ordered.length === 2) return ordered[1] / ordered[0] >= 10;
  return spread((a, b) => Math.log(b / a)) < spread((a, b) => b - a);
}

// The loss against the values of one key. A key with values that are no numbers has one place for
// each.
function keyChart(sweep, place) {
  const {key, log} = sweep.keys[place];
  const shown = sweep.trials.map((trial, index) => ({trial, index}))
      .filter(({trial}) => resultOf(trial) != null);
  const texts = [...new Set(sweep.trials.map(trial => trial.values[place]))];
  const isNumeric = texts.every(text => text !== '' && isFinite(text));
  const x = trial => isNumeric ? Number(trial.values[place]) : texts.indexOf(trial.values[place]);
  const numbers = isNumeric ? texts.map(Number) : [];
  const logX = isNumeric && (log || isSpacedByFactors(numbers));
  const pointOf = ({trial, index}) => [x(trial), resultOf(trial),
      `${trial.name}: ${lossText(resultOf(trial))}\n` +
      sweep.keys.map((one, i) => `${one.key} = ${trial.values[i]}`).join('\n') +
      (trial.state === 'finished' ? '' : `\n${trial.state} after ${trial.steps} steps`),
      trialColor(index, sweep), trial.state !== 'finished'];
  const byX = (a, b) => a[0] - b[0];
  const finished = shown.filter(({trial}) => trial.state === 'finished').map(pointOf).sort(byX);
  const others = shown.filter(({trial}) => trial.state !== 'finished').map(pointOf).sort(byX);
  // The lowest loss at every value, whatever the other keys are; of random points it says nothing.
  const values = [...new Set(finished.map(point => point[0]))];
  const isGrid = sweep.keys.length === 1 || values.length < finished.length;
  const lowest = !isNumeric || !isGrid ? [] : values.map(value =>
      finished.filter(point => point[0] === value).reduce((a, b) => b[1] < a[1] ? b : a));
  const first = Math.max(0, ...sweep.trials.map(trial => (trial.curve[0] || [0, 0])[1]));
  const lost = sweep.trials.filter(trial => trial.state === 'diverged');
  const marks = sweep.keys.length > 1 ? [] : lost.map(trial => ({x: x(trial), text: 'diverged'}));
  // Colours are those of the trials, so the states have shapes.
  const states = [finished.length && '● finished', others.length && '○ stopped early',
                  lowest.length > 1 && '─ lowest'].filter(Boolean);
  // A grid has a tick at each of its values, if there is room for them.
  const ordered = [...new Set(numbers)].sort((a, b) => a - b);
  const ticks = ordered.length <= 6 ? ordered : null;
  return chart(`Loss against ${key} (${states.join(', ')})`, [
    {name: 'lowest', color: 'var(--soft)', width: 1.2, points: lowest.map(([at, loss]) => [at, loss])},
    {name: 'stopped early', color: 'var(--ink)', points: others, dots: true, bare: true},
    {name: 'finished', color: 'var(--ink)', points: finished, dots: true, bare: true}],
    {log: true, most: 1.15 * first, logX, xTitle: key, noTip: true, noLegend: true, marks,
     wide: sweep.keys.length === 1, ticks: isNumeric ? ticks : null,
     xTicks: isNumeric ? null : texts.map((text, i) => [i, text])});
}

function drawRange(range) {
  const charts = html('div', 'charts'), marks = [];
  const mark = (lr, text) => { if (lr != null) marks.push({x: lr, text}); };
  mark(range.suggested_lr, 'suggested');
  if (range.steepest_lr !== range.suggested_lr) mark(range.steepest_lr, 'steepest');
  mark(range.diverged_lr, 'diverged');
  marks.sort((a, b) => a.x - b.x);
  const first = (range.smoothed[0] || [0, 0])[1];
  const draw = () => charts.replaceChildren(...[
    chart('Loss against the learning rate (nats per token)', [
      {name: 'each step', color: 'var(--faint)', points: range.losses, width: 1},
      {name: 'smoothed', color: 'var(--s0)', points: range.smoothed, width: 2.2}],
      {wide: true, log: true, logX: true, xTitle: 'learning rate', most: 1.5 * first, marks}),
  ].filter(Boolean));
  onRedraw(draw);
  draw();
  fill('range', charts, html('p', 'soft', 'Two rules read this curve: take the rate at which the ' +
       'smoothed loss falls fastest, or a tenth of the rate from which on it has lost half of what ' +
       'it had gained. The lower one of the two is suggested.'));
}

function drawSweep(sweep) {
  byId('title').textContent = sweep.name;
  byId('subtitle').textContent = sweep.subtitle;
  for (const [name, value] of sweep.facts) {
    byId('tiles').append(html('div', 'card tile', html('span', 'soft', name), html('b', '', value)));
  }
  byId('reproduce').dataset.title = sweep.range ? 'Train with the suggested rate' : 'The best again';
  if (sweep.repeat) fill('reproduce', html('div', 'card', html('pre', '', sweep.repeat)));
  if (sweep.range) {
    drawRange(sweep.range);
    return;
  }
  fill('trials', html('div', 'card', trialTable(sweep)));
  const curves = html('div', 'charts'), swept = html('div', 'charts');
  const draw = () => {
    curves.replaceChildren(...[trialCurves(sweep)].filter(Boolean));
    swept.replaceChildren(...sweep.keys.map((_, i) => keyChart(sweep, i)).filter(Boolean));
  };
  onRedraw(draw);
  draw();
  const scale = choice('curve-y', [['linear', 'linear'], ['log', 'log']], 'linear',
                       value => { curveChoices.y = value; draw(); });
  if (curves.children.length) fill('curves', html('div', 'bar', html('span', 'soft', 'loss'), scale),
                                   curves);
  if (swept.children.length) fill('swept', swept);
}
