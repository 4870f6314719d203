// Builds the page: one run in full, or several side by side.
function prepareRun(run) {
  const first = run.metrics.run[0] || {}, train = run.metrics.train;
  run.first = first;
  run.last = train[train.length - 1] || {};
  run.summary = run.summary || {};
  run.begin_time = first.time || (train[0] || {}).time || 0;
  run.tokens_per_step = run.summary.tokens_per_step || run.last.tokens || 0;
  const evaluations = run.metrics.eval.filter(line => line.val_loss != null);
  run.evaluation = evaluations[evaluations.length - 1];
  run.best = evaluations.reduce((a, b) => !a || b.val_loss < a.val_loss ? b : a, null);
  return run;
}

// Returns the unit in which the losses and speeds of a run are counted.
const countedUnit = run => ((run.summary || {}).model || {}).image_size ? 'image' : 'token';

// A net of images has neither heads nor a vocabulary.
function modelText(model, planned) {
  const sizes = planned && planned.image_size ?
      [`images of ${planned.image_size} x ${planned.image_size} with ${
           planned.image_channels === 1 ? '1 channel' : planned.image_channels + ' channels'}`,
       `${planned.vocab_size} classes`] :
      [`d_model ${model.d_model}`,
       `${model.heads} heads of ${model.head_dim || model.d_model / model.heads}` +
           (model.kv_heads && model.kv_heads !== model.heads ? `, ${model.kv_heads} for keys and values` : ''),
       planned ? `MLP of ${planned.d_ff}` : null,
       model.family === 'moe' ? `${model.experts} experts, ${model.top_k} for a token` : null,
       planned ? `vocabulary ${planned.vocab_size}` : null,
       `context ${model.seq_len}`];
  return [model.family, countOf(model.layers, 'layer'), ...sizes].filter(Boolean).join(', ');
}

// Returns a warning if validation got worse while the training loss fell, else null.
function overfittingText({best, evaluation, metrics, last}) {
  if (!best || !(evaluation.val_loss > 1.01 * best.val_loss)) return null;
  const lossesFrom = (from, to) => metrics.train.filter(
      line => line.loss != null && line.step > from && line.step <= to).map(line => line.loss);
  const mean = values => values.reduce((sum, value) => sum + value, 0) / values.length;
  const width = Math.max(1, evaluation.step - best.step) / 2;
  const then = lossesFrom(best.step - width, best.step), now = lossesFrom(last.step - width, last.step);
  if (!then.length || !now.length || !(mean(now) < mean(then))) return null;
  return `The validation loss rises since step ${best.step} while the training loss falls: ` +
      'the model memorizes its training data. ';
}

// One step says little about a run: its loss depends on its batch.
function smoothedText({metrics, last}) {
  const losses = metrics.train.filter(line => line.loss != null).map(line => [line.step, line.loss]);
  if (!losses.length || last.loss == null) return null;
  return `${smooth(losses).at(-1)[1].toFixed(4)} (last ${last.loss.toFixed(4)})`;
}

// Key numbers: [name, value as text, or null].
function keyNumbers(run) {
  const {summary, last, evaluation} = run;
  const fixed = (value, digits) => value == null ? null : value.toFixed(digits);
  return [
    ['parameters', summary.params ? countText(summary.params) : null],
    ['ranks', summary.ranks ? String(summary.ranks.length) : null],
    ['steps', last.step == null ? null : String(last.step)],
    ['training loss, smoothed', smoothedText(run)],
    ['epoch', fixed(last.epoch, 2)],
    ['validation loss', evaluation ? fixed(evaluation.val_loss, 4) : null],
    ['best validation loss', run.best ? `${fixed(run.best.val_loss, 4)} at step ${run.best.step}` : null],
    ['bits per byte', evaluation ? fixed(evaluation.bits_per_byte, 3) : null],
    [countedUnit(run) + 's per second', summary.tokens_per_s ? countText(summary.tokens_per_s) : null],
    ['step (median)', summary.step_s ? secondsText(summary.step_s) : null],
    ['MFU', summary.mfu != null ? percentText(summary.mfu) : null],
    [summary.failures ? 'time since the last recovery' : 'training time',
     summary.seconds ? secondsText(summary.seconds) : null]];
}

function drawHead(run) {
  const {first, summary, metrics} = run;
  // A failure that the run has survived is followed by a restart in a later epoch.
  const survived = failure => metrics.restart.some(line => line.epoch > failure.epoch);
  const failure = metrics.failure.filter(line => !survived(line)).pop();
  const where = [summary.end, first.cpu, first.host && 'on ' + first.host,
                 first.commit && 'commit ' + first.commit].filter(Boolean).join(', ');
  byId('title').textContent = run.name;
  byId('subtitle').append(failure ? html('b', 'bad', 'failed: ' + failure.cause + '. ') : '',
                          html('b', 'bad', overfittingText(run) || ''), where);
  for (const [name, value] of keyNumbers(run)) {
    if (value) byId('tiles').append(html('div', 'card tile', html('span', 'soft', name),
                                         html('b', '', value)));
  }
}

// The value of a key, such as "8" or, of a mixture, [{"path":"a.tok","weight":1}].
function keyValueText(value) {
  if (value == null) return '–';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

function drawComparison(runs) {
  byId('title').textContent = runs.map(run => run.name).join(' · ');
  const colored = (run, i) => {
    const head = html('td', '');
    head.append(legendKey(runColor(i), run.name));
    return head;
  };
  const numbers = runs.map(keyNumbers);
  // "4.6 (last 4.7)" and "4.6 at step 20" may take two lines, but a number and its unit stay on one.
  const numberCell = text => cell(/ at | \(/.test(text || '') ? 'wraps' : '', text || '–');
  const kept = numbers[0].map((_, i) => i).filter(i => numbers.some(all => all[i][1]));
  fill('comparison', html('div', 'card', table(['', ...kept.map(i => numbers[0][i][0])],
      runs.map((run, r) => [colored(run, r), ...kept.map(i => numberCell(numbers[r][i][1]))]))));
  const rows = data.differences.map(({key, values}) => [
    key, ...values.map(value => cell('text', keyValueText(value)))]);
  fill('comparison', html('div', 'card', html('h3', '', 'Configuration keys that differ'),
      rows.length ? table(['key', ...runs.map(run => html('th', 'text', run.name))], rows, 1) :
                    html('p', 'soft', 'The configurations are equal.')));
}

// The slowest rank of each run, side by side.
function drawComparedTime(runs) {
  const slowest = runs.map(run => {
    const ranks = (run.summary.ranks || []).filter(rank => rank.time && rank.time.measured);
    return ranks.reduce((a, b) => !a || b.time.measured.step > a.time.measured.step ? b : a, null);
  });
  // The step is that of the whole run, as above; the parts are those of the rank.
  const withStepOf = ({step_s}, time) =>
      step_s ? {...time, measured: {...time.measured, step: step_s}} : time;
  const sides = runs.map((run, i) => slowest[i] &&
      {name: run.name, time: withStepOf(run.summary, slowest[i].time)}).filter(Boolean);
  if (!sides.length) return;
  fill('attribution', html('p', 'soft', 'The parts are those of the slowest rank of each run.'),
       html('div', 'card', timeTable(sides)));
  const peak = run => Math.max(0, ...(run.summary.ranks || []).map(
      rank => rank.memory.measured ? rank.memory.measured.peak : rank.memory.predicted.peak));
  fill('bytes', html('div', 'card', table(['', 'in use at once, largest rank', 'sent by rank 0 in a step'],
      runs.map(run => {
        const sent = (((run.summary.ranks || [])[0] || {}).traffic || {}).measured;
        return [run.name, bytesText(peak(run)), sent ? bytesText(
            Object.values(sent).reduce((sum, bytes) => sum + bytes, 0)) : '–'];
      }))));
}

function drawSamples(runs) {
  const samples = runs.flatMap(run => run.metrics.sample.map(sample => ({run, sample})));
  samples.sort((a, b) => b.sample.step - a.sample.step);
  if (!samples.length) return;
  const cards = samples.map(({run, sample}) => html('div', 'card',
      html('div', 'soft', (runs.length > 1 ? run.name + ', ' : '') + 'after step ' + sample.step),
      html('pre', '', sample.text)));
  fill('samples', ...cards.slice(0, 3));
  if (cards.length > 3) {
    fill('samples', html('details', '', html('summary', '', `${cards.length - 3} older samples`),
                         ...cards.slice(3)));
  }
}

function drawConfiguration(run) {
  fill('configuration', html('details', 'card',
      html('summary', '', 'config.resolved.toml: every key with its value'),
      html('pre', '', run.config)));
}

// Shows the model, its data, and the losses that counting tokens reaches.
function drawModel(run) {
  const {model, data: source} = ((run.first || {}).config) || {}, {summary} = run;
  if (!model) return;
  const rows = [];
  const row = (name, value) => { if (value) rows.push([name, cell('text', value)]); };
  row('model', modelText(model, summary.model));
  row('parameters', summary.params ? countText(summary.params) : null);
  for (const file of summary.data || []) {
    row(file.use, `${file.path}: ${countText(file.tokens)} tokens, ${countOf(file.documents, 'document')}` +
        (file.share == null ? '' : `, ${percentText(file.share)} of the samples`));
  }
  if (source && source.source === 'synthetic') row('training data', 'synthetic');
  const base = summary.baselines;
  if (base) {
    const bits = nats => `${nats.toFixed(4)} nats per ${countedUnit(run)}` + (base.bytes_per_token ?
        `, ${(nats / Math.LN2 / base.bytes_per_token).toFixed(3)} bits per byte` : '');
    row('loss of guessing', bits(base.uniform));
    if (base.unigram) row('loss of token frequencies', bits(base.unigram));
    if (base.bigram) row('loss of pairs of tokens', bits(base.bigram));
    if (base.entropy) row('entropy of the data', bits(base.entropy));
  }
  fill('model', html('div', 'card', table(['', ''], rows)),
       base && base.counted ? html('p', 'soft', `The last baselines are those of the validation ` +
           `data under counts of ${countText(base.counted)} training tokens.`) : null);
}

function drawReproduction(run) {
  const {summary} = run;
  const ranks = (summary.ranks || []).length;
  const peak = (summary.peak_flops || 0) / 1e9;
  const environment = Object.entries(summary.environment || {}).concat(
      summary.mfu_formula ? [['MFU', `${summary.mfu_formula}; peak_flops ${
          peak < 1e4 ? peak.toFixed(1) + ' G' : (peak / 1e3).toFixed(1) + ' T'}FLOP/s, measured`]] : [],
      summary.flops_convention ? [['model FLOPs', summary.flops_convention]] : []);
  const word = text => /^[\w./+@%:=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
  const again = run.folder + '-again', program = word((summary.environment || {}).program || 'trireme');
  // Paths in the configuration are relative to the folder in which the run was started.
  const started = (summary.environment || {}).started_in;
  const config = word(run.folder + '/config.resolved.toml');
  const begin = /^backend = "mpi"/m.test(run.config) ? `mpirun -n ${ranks} ${program} train ${config}` :
      /^backend = "tcp"/m.test(run.config) ? `${program} launch ${config} --ranks ${ranks}` :
      `${program} train ${config}`;
  fill('reproduce', html('div', 'card', html('pre', '',
      (started ? `cd ${word(started)}\n` : '') +
      `${begin} --out ${word(again)}` +
      `\n${program} report --compare ${word(run.folder)} ${word(again)}`)),
      environment.length ? html('div', 'card', table(['', ''], environment.map(
          ([key, value]) => [key, cell('text', value)]))) : null);
}

function drawContents() {
  for (const section of document.querySelectorAll('section')) {
    if (!section.children.length) continue;
    byId('contents').append(button(section.dataset.title, '', () =>
        section.scrollIntoView({behavior: 'smooth'})));
  }
}

function drawRuns(runs) {
  if (runs.length > 1) {
    drawComparison(runs);
    drawCurves(runs);
    drawComparedTime(runs);
    drawSamples(runs);
    return;
  }
  const [run] = runs;
  drawHead(run);
  drawModel(run);
  drawCurves(runs);
  drawSpent(run);
  drawFailures(run);
  drawTimeline(run.ranks);
  drawAttribution(run.summary);
  drawDiagnosis(run.summary.diagnosis);
  drawMemory(run.ranks);
  drawBytes(run.summary);
  drawSamples(runs);
  drawConfiguration(run);
  drawReproduction(run);
}

setUpTheme();
if (data.plan) drawPlan(data.plan);
else if (data.sweep) drawSweep(data.sweep);
else drawRuns(data.runs.map(prepareRun));
drawContents();
document.title = 'Trireme: ' + byId('title').textContent;
