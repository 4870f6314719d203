// The timeline of a step: for every rank the predicted row above the measured one, on one axis.
const kindNames = {
  F: 'forward', B: 'input gradient', W: 'weight gradient', BW: 'both gradients',
  FB: 'forward and gradients overlapped', Sum: 'sum of gradients', transfer: 'transfer',
  memory: 'offload', Step: 'optimizer', waited: 'waiting'};
// For a schedule without a run: durations in its own unit.
const timeText = s => data.plan && data.plan.is_unitless ? String(+s.toPrecision(5)) : secondsText(s);
const kindColor = kind => cssValue('--op-' + (kindNames[kind] ? kind : 'transfer'));

// The slowest, the median and the fastest rank say so, and a rank that stands for those alike.
const rankLabel = rank => 'rank ' + rank.rank +
    (/^(slowest|median|fastest|\d+ alike)$/.test(rank.why) ? ', ' + rank.why : '');

// The micro-batch and the chunk in the name of an action that computes: 3 and 1 of "BW3.1+".
function placeOf(name) {
  const found = /^(?:F|B|W|BW)(\d+)(?:\.(\d+))?/.exec(name);
  return found ? {microbatch: found[1], chunk: +(found[2] || 0)} : {};
}

// The boxes of a rank's rows, in microseconds since the start of the step.
function boxesOf(rank, step) {
  const boxes = (names, kinds, times, waited) => names.map((name, i) => ({
    name, kind: kinds[i], ...placeOf(name), begin: times.begin_us[i], end: times.end_us[i],
    waited: waited ? waited[i] : 0})).filter(box => box.end > box.begin);
  const predicted = rank.predicted ?
      boxes(rank.predicted.actions, rank.predicted.kinds, rank.predicted) : [];
  const disturbed = rank.what_if ?
      boxes(rank.what_if.actions, rank.what_if.kinds, rank.what_if) : [];
  const traced = (rank.measured || []).find(one => one.step === step);
  const measured = traced ? boxes(rank.actions, rank.kinds, traced, traced.waited_us) : [];
  const units = traced ? traced.units.map(([action, name, begin, end]) => ({
    name, action: rank.actions[action], kind: rank.kinds[action], begin, end, waited: 0})) : [];
  return {predicted, disturbed, measured, units};
}

class Timeline {
  constructor(ranks) {
    this.ranks = ranks.ranks;
    this.numRanks = ranks.num_ranks;
    this.steps = [...new Set(this.ranks.flatMap(rank => (rank.measured || []).map(m => m.step)))];
    this.showLayers = false;
    // Reserves room for the rank's place in the mesh and the name of the row.
    this.left = 70 + 6.2 * Math.max(7, ...this.ranks.map(
        rank => Math.max((rank.coords || '').length, rankLabel(rank).length)));
    this.viewport = new Viewport('timeline-canvas', 'timeline of a step', 100,
        (context, width, height, view) => this.paint(context, width, height, view), {
          margins: {left: this.left, bottom: 20},
          onHover: place => this.hover(place),
          onView: view => this.tellRange(view)});
    this.range = html('span', 'soft');
    this.range.id = 'timeline-range';
    this.choose(this.steps[0]);
  }

  choose(step) {
    this.step = step;
    this.rows = [];
    for (const rank of this.ranks) {
      const boxes = boxesOf(rank, step);
      if (boxes.predicted.length) this.rows.push({rank, name: 'predicted', boxes: boxes.predicted});
      if (boxes.disturbed.length) this.rows.push({rank, name: 'what if', boxes: boxes.disturbed});
      if (boxes.measured.length) this.rows.push({rank, name: 'measured', boxes: boxes.measured});
      if (this.showLayers && boxes.units.length) {
        this.rows.push({rank, name: 'layers', boxes: boxes.units});
      }
    }
    this.lastChunk = Math.max(0, ...this.rows.flatMap(row => row.boxes.map(box => box.chunk || 0)));
    this.end = Math.max(1, ...this.rows.flatMap(row => row.boxes.map(box => box.end)));
    let y = 4;
    this.rows.forEach((row, i) => {
      if (i > 0 && this.rows[i - 1].rank !== row.rank) y += this.standsAlone(i - 1) ? 19 : 9;
      row.y = y;
      row.height = row.name === 'layers' ? 15 : 20;
      y += row.height + 2;
    });
    this.viewport.height = y + 24;
    this.viewport.canvas.dataset.left = this.left;  // where the first moment is
    this.viewport.draw();
  }

  // The place in the mesh is written below a row if the rank has no second row.
  standsAlone(i) {
    const {rank} = this.rows[i];
    return rank.coords && (i === 0 || this.rows[i - 1].rank !== rank);
  }

  tellRange(view) {
    const from = view.x0 * this.end * 1e-6, to = view.x1 * this.end * 1e-6;
    this.range.textContent = `${timeText(from)} to ${timeText(to)}`;
    this.range.dataset.from = from;
    this.range.dataset.to = to;
  }

  toX(us) { return this.viewport.toX(us / this.end); }

  paint(context, width, height, view) {
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'middle';
    const ink = cssValue('--ink'), soft = cssValue('--soft'), lane = cssValue('--lane');
    const colors = {};
    for (const kind in kindNames) colors[kind] = kindColor(kind);
    this.paintAxis(context, width, height, view);
    context.save();
    context.beginPath();
    context.rect(this.left, 0, width - this.left, height - 20);
    context.clip();
    for (const row of this.rows) {
      context.fillStyle = lane;
      context.fillRect(this.left, row.y, width - this.left, row.height);
      context.textAlign = 'center';
      for (const box of row.boxes) {
        const x = this.toX(box.begin), right = this.toX(box.end);
        if (right < this.left || x > width) continue;
        const w = Math.max(0.6, right - x - 0.4);
        context.fillStyle = colors[box.kind] || colors.transfer;
        context.fillRect(x, row.y, w, row.height);
        if (box.waited > 0) {  // how much of it, not when
          context.fillStyle = colors.waited;
          const part = Math.min(1, box.waited / (box.end - box.begin));
          context.fillRect(x, row.y + row.height - 5, w * part, 5);
        }
        if (box.chunk > 0) {  // later chunks are paler, so that a micro-batch can be followed
          context.fillStyle = `rgba(255, 255, 255, ${0.6 * box.chunk / this.lastChunk})`;
          context.fillRect(x, row.y, w, row.height);
        }
        context.fillStyle = '#16191d';
        const shown = Math.max(x, this.left);
        boxText(context, box.name, shown, row.y, Math.min(right, width) - shown, row.height,
                box.microbatch);
      }
    }
    context.restore();
    this.rows.forEach((row, i) => {
      context.textAlign = 'right';
      context.fillStyle = soft;
      context.fillText(row.name, this.left - 8, row.y + row.height / 2);
      if (i > 0 && this.rows[i - 1].rank === row.rank) return;
      context.textAlign = 'left';
      context.fillStyle = ink;
      context.fillText(rankLabel(row.rank), 0, row.y + row.height / 2);
      if (row.rank.coords) {
        context.fillStyle = soft;
        context.fillText(row.rank.coords, 0, row.y + row.height * 1.5 + 2);
      }
    });
  }

  paintAxis(context, width, height, view) {
    const from = view.x0 * this.end, to = view.x1 * this.end;
    const step = niceStep(to - from, Math.max(2, (width - this.left) / 110));
    context.textAlign = 'center';
    context.strokeStyle = cssValue('--line');
    context.fillStyle = cssValue('--soft');
    for (let i = Math.ceil(from / step); i * step <= to; i++) {
      const x = Math.round(this.toX(i * step)) + 0.5;
      context.beginPath();
      context.moveTo(x, 0);
      context.lineTo(x, height - 20);
      context.stroke();
      // Every line has its number; at the ends of the axis it is moved inside.
      const text = timeText(+(i * step * 1e-6).toPrecision(9));
      const half = context.measureText(text).width / 2;
      const middle = Math.min(Math.max(x, this.left + half), width - half);
      context.fillText(text, middle, height - 8);
    }
  }

  hover(place) {
    const row = this.rows.find(one => place.top >= one.y && place.top <= one.y + one.height);
    if (!row) return null;
    const us = place.x * this.end;
    const box = row.boxes.find(one => us >= one.begin && us <= one.end);
    if (!box) return `rank ${row.rank.rank}, ${row.name}: nothing at ${timeText(us * 1e-6)}`;
    const waited = box.waited > 0 ? `\nwaited ${timeText(box.waited * 1e-6)} of it` : '';
    return `rank ${row.rank.rank}, ${row.name}: ${box.name}${box.action ? ' of ' + box.action : ''}` +
        ` (${kindNames[box.kind] || 'transfer'})\n${timeText((box.end - box.begin) * 1e-6)}, ` +
        `${timeText(box.begin * 1e-6)} to ${timeText(box.end * 1e-6)}` + waited;
  }

  legend() {
    const used = new Set(this.rows.flatMap(row => row.boxes.map(box => box.kind)));
    if (this.rows.some(row => row.boxes.some(box => box.waited > 0))) used.add('waited');
    const keys = Object.keys(kindNames).filter(kind => used.has(kind))
        .map(kind => legendKey(`var(--op-${kind})`, kindNames[kind]));
    if (this.lastChunk > 0) keys.push(html('span', 'soft', 'paler: later chunks; numbers: micro-batches'));
    return keys;
  }

  section() {
    const controls = html('div', 'bar', ...this.viewport.buttons('timeline'));
    if (this.steps.length > 1) {
      controls.append(html('span', 'soft', 'step'), choice('timeline-step',
          this.steps.map(step => [step, String(step)]), this.step, step => this.choose(step)));
    }
    const layers = button('layers', 'the parts of every action', () => {
      this.showLayers = !this.showLayers;
      layers.setAttribute('aria-pressed', this.showLayers);
      this.choose(this.step);
    });
    layers.id = 'timeline-layers';
    layers.setAttribute('aria-pressed', 'false');
    if (this.steps.length) controls.append(layers);
    controls.append(html('span', 'gap'), this.range);
    return html('div', 'card', controls, html('div', 'bar', ...this.legend()),
                this.viewport.canvas);
  }
}

function drawTimeline(ranks) {
  if (!ranks || !ranks.ranks.length) {
    fill('timeline', html('p', 'soft', 'No step was traced: the run ended early, or trace.steps ' +
                                       'is 0.'));
    return;
  }
  const timeline = new Timeline(ranks);
  const shown = ranks.ranks.length < ranks.num_ranks ?
      html('p', 'soft', `${ranks.ranks.length} of ${ranks.num_ranks} ranks are shown: ` +
           ranks.ranks.map(rank => `${rank.rank} (${rank.why})`).join(', ') +
           (data.plan ? '.' : '. The key trace.ranks selects others.')) : null;
  fill('timeline', timeline.section(), shown);
  timeline.viewport.draw();
}
