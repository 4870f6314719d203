// Where the time of a run went, over all epochs of its job, and the run as a timeline with its
// failures.
const spentReasons = [
  ['compute', 'computing', 'var(--time-compute)'],
  ['exposed_comm', 'exposed communication', 'var(--time-exposed)'],
  ['stragglers', 'waits for slower ranks', 'var(--time-stragglers)'],
  ['bubble', 'bubble', 'var(--time-bubble)'],
  ['other', 'evaluations, samples, reports', 'var(--time-other)'],
  ['saving', 'saving', 'var(--time-saving)'],
  ['redone', 'steps done again', 'var(--time-redone)'],
  ['failures', 'failures, until it trains again', 'var(--bad)']];
const lostReasons = ['saving', 'redone', 'failures'];

function spentTable({all_s, seconds}) {
  const rows = spentReasons.filter(([key]) => seconds[key] > 0).map(([key, name]) => [
    cell('text', name), cell('text', lostReasons.includes(key) ? 'lost' : 'effective'),
    longTimeText(seconds[key]), percentText(seconds[key] / all_s, 2)]);
  return table([html('th', 'text', ''), html('th', 'text', 'counts as'), 'time', 'share'], rows);
}

// Seconds or minutes since the run began, as an axis.
function timeAxis(run, lines) {
  const seconds = line => line.time - run.begin_time;
  const [size, name] = seconds(lines.at(-1)) < 180 ? [1, 's'] : [60, 'min'];
  const at = line => seconds(line) / size;
  return {at, axis: {values: [0, ...lines.map(at)], text: x => numberText(x) + ' ' + name,
                     title: 'since the run began'}};
}

// The steps over the time, with a dot for every failure; steps that were done again are not shown.
function runTimeline(run) {
  const {train, failure} = run.metrics;
  const survived = failure.filter(line => line.epoch);
  if (train.length < 2 || !survived.length) return null;
  const kinds = [...new Set(survived.map(line => line.class))];
  const {at, axis} = timeAxis(run, train);
  const every = Math.ceil(train.length / 400);
  const points = train.filter((_, i) => i % every === 0 || i === train.length - 1)
      .map(line => [at(line), line.step]);
  return axesPlot('Steps over the time, and failures', axis,
      {values: [0, ...train.map(line => line.step)], text: y => String(Math.round(y)), zero: true},
      {lines: [{name: 'steps', color: 'var(--s0)', points, dots: false}],
       dots: kinds.map((kind, i) => ({
         name: kind, color: ['var(--bad)', 'var(--s6)', 'var(--s3)', 'var(--s5)', 'var(--s2)'][i % 5],
         points: survived.filter(line => line.class === kind).map(line => [at(line), line.step])}))});
}

function shareOverTime(run) {
  const lines = run.metrics.goodput;
  if (lines.length < 3) return null;
  const {at, axis} = timeAxis(run, lines);
  return axesPlot('Effective share of the time so far', axis,
      {values: lines.flatMap(line => [line.effective, line.predicted]),
       text: share => percentText(share, 1)},
      {lines: [{name: 'measured', color: 'var(--s0)', dots: false,
                points: lines.map(line => [at(line), line.effective])},
               {name: 'predicted', color: 'var(--s1)', dashes: '5 3',
                points: lines.map(line => [at(line), line.predicted])}]});
}

function drawSpent(run) {
  const goodput = run.summary.goodput || run.metrics.goodput.at(-1);
  if (!goodput || !goodput.seconds || !(goodput.all_s > 0)) return;
  const shown = spentReasons.filter(([key]) => goodput.seconds[key] > 0.0005 * goodput.all_s);
  const nameOf = Object.fromEntries(shown.map(([key, name]) => [key, name]));
  const colorOf = Object.fromEntries(shown.map(([, name, color]) => [name, color]));
  const row = {rank: goodput, name: '', head: ' ',
               parts: shown.map(([key]) => [nameOf[key], goodput.seconds[key]])};
  fill('spent',
       html('p', '', `${percentText(goodput.effective, 2)} of ${longTimeText(goodput.all_s)} were ` +
            'effective: they were not lost to saves, failures and steps that were done again. ' +
            `By the measured costs and the rate of failures, ${
                percentText(goodput.predicted, 2)} are predicted.`),
       html('div', 'card',
            html('div', 'bar', ...shown.map(([, name, color]) => legendKey(color, name))),
            stackedBars([row], 'time of the run by what it was spent on', name => colorOf[name],
                        longTimeText)));
  const charts = html('div', 'charts');
  for (const card of [runTimeline(run), shareOverTime(run)]) if (card) charts.append(card);
  if (charts.children.length === 1) charts.style.maxWidth = '620px';
  if (charts.children.length) fill('spent', charts, html('p', ''));
  fill('spent', html('details', 'card', html('summary', '', 'The same as a table'),
                     spentTable(goodput)));
}
