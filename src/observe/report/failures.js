// The failures that a run of `trireme launch` has survived, and where the time of each recovery
// went.
// The phases of a recovery follow each other, so they are shades of one colour.
const recoveryShade = share => `color-mix(in oklab, var(--time-redone) ${share}%, var(--lane))`;
const recoveryPhases = [
  ['detect', 'noticed', recoveryShade(100)],
  ['classify', 'others ready', recoveryShade(84)],
  ['epoch', 'new epoch', recoveryShade(68)],
  ['join', 'all met', recoveryShade(52)],
  ['state', 'state back', recoveryShade(38)],
  ['first_step', 'first step', recoveryShade(25)]];

// Several failures may come before a run trains again; they share one recovery.
function recoveriesOf(metrics) {
  const restarts = metrics.restart.filter(line => line.ms && line.epoch);
  return restarts.map((restart, i) => {
    const before = i > 0 ? restarts[i - 1].epoch : 0;
    const failures = metrics.failure.filter(
        line => line.epoch >= before && line.epoch < restart.epoch);
    // Each time of `ms` counts from the detection, and `detect` ends there.
    let end = 0;
    const parts = recoveryPhases.map(([key]) => {
      const at = restart.ms[key] || 0;
      if (key === 'detect') return ['noticed', at / 1000];
      const length = Math.max(0, at - end);
      end = Math.max(end, at);
      return [recoveryPhases.find(phase => phase[0] === key)[1], length / 1000];
    });
    return {restart, failures, parts, seconds: ((restart.ms.detect || 0) + end) / 1000};
  });
}

function medianOf(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

// What the run has changed after the failure, beside starting again.
function remedyOf(line) {
  if (line.goes_back_to != null)
    return `; it went back to a checkpoint of step ${line.goes_back_to} or earlier, because ` +
        line.why_back;
  return line.left_out ?
      `; samples ${line.first_sample} to ${line.first_sample + line.samples - 1} are left out` : '';
}

function failureTable(shown, run) {
  const rows = shown.flatMap(one => one.failures).map(line => [
    line.number, line.step, ((line.time - run.begin_time) / 60).toFixed(1),
    cell('text', line.class), cell('text', line.cause + remedyOf(line))]);
  return table(['failure', 'after step', 'minute', html('th', 'text', 'kind'),
                html('th', 'text', 'cause')], rows);
}

function recoveryTable(shown) {
  const rows = shown.map(({restart, failures, parts, seconds}) => [
    failures.map(line => line.number).join(', '), ...parts.map(part => secondsText(part[1])),
    secondsText(seconds), restart.redone_steps]);
  return table(['failure', ...recoveryPhases.map(phase => phase[1]), 'all', 'steps redone'], rows);
}

// What checks for silent corruption have found, whether the run has survived it or not.
function corruptionCard(run) {
  const found = run.metrics.failure.filter(line => line.corruption).map(line => line.corruption);
  if (!found.length) return null;
  const who = ({ranks, certain}) => ranks.length ?
      ranks.map(({rank, host}) => `rank ${rank} on host ${host}`)
          .join(certain ? ' and ' : ' or ') : 'unknown';
  const rows = found.map(one => [one.step, cell('text', one.check), cell('text', who(one))]);
  return html('div', 'card', html('h3', '', 'Silent corruption'),
              table(['step', html('th', 'text', 'found by'),
                     html('th', 'text', 'computed or held wrong numbers')], rows));
}

function drawFailures(run) {
  drawRecoveries(run);
  const wrong = corruptionCard(run);
  if (wrong) fill('failures', wrong);
}

function drawRecoveries(run) {
  const all = recoveriesOf(run.metrics), summary = run.summary;
  if (!all.length) return;
  const count = all.reduce((sum, one) => sum + one.failures.length, 0);
  const sentence = `${count} ${count === 1 ? 'failure was' : 'failures were'} survived. From the ` +
      'last step before a failure to the next step, it took ' +
      `${secondsText(medianOf(all.map(one => one.seconds)))} (median).` +
      (summary.effective != null && summary.failures ?
       ` ${countOf(summary.redone_steps, 'step')} ${summary.redone_steps === 1 ? 'was' : 'were'} ` +
       'done twice, and all failures together have cost ' +
       `${percentText(1 - summary.effective)} of the time.` : '');
  const back = all.flatMap(one => one.failures).filter(line => line.goes_back_to != null);
  const shown = all.slice(-20);
  const rows = shown.map(one => ({
    rank: one.restart, name: '', parts: one.parts,
    head: 'failure ' + one.failures.map(line => line.number).join(', ')}));
  const colors = Object.fromEntries(recoveryPhases.map(phase => [phase[1], phase[2]]));
  fill('failures', html('p', '', sentence),
       ...back.map(line => html('p', '', `After failure ${line.number}, the run went back to a ` +
           `checkpoint of step ${line.goes_back_to} or earlier, because ${line.why_back}.`)),
       all.length > shown.length ?
           html('p', 'soft', `The last ${shown.length} recoveries are shown.`) : null,
       html('div', 'card',
            html('div', 'bar', ...recoveryPhases.map(phase => legendKey(phase[2], phase[1]))),
            stackedBars(rows, 'time of each recovery by its phases', name => colors[name],
                        secondsText)),
       html('details', 'card', html('summary', '', 'Causes and times as tables'),
            failureTable(shown, run), recoveryTable(shown)));
}
