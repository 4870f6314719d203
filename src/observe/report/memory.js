// The memory map of a rank: the actions of its Program from left to right, addresses from bottom to
// top, and the live bytes above it.
const classNames = {params: 'parameters', grads: 'gradients', optimizer: 'optimizer state',
                    activations: 'activations', comm: 'messages', scratch: 'scratch',
                    snapshot: 'copy for a checkpoint'};
const curveHeight = 76;

class MemoryMap {
  constructor(ranks) {
    this.tables = ranks.tables;
    this.left = 74;
    this.legend = html('p', 'soft', '');
    this.viewport = new Viewport('memory-canvas', 'memory map of a rank', 420,
        (context, width, height, view) => this.paint(context, width, height, view), {
          both: true, least: 1e-6,
          margins: {left: this.left, top: curveHeight, bottom: 22}, onHover: place => this.hover(place)});
    this.choose(ranks.ranks[0]);
  }

  choose(rank) {
    this.rank = rank;
    this.memory = rank.memory;
    this.count = rank.actions.length;
    this.live = new Array(this.count).fill(0);
    for (const region of this.memory.regions) {
      for (const [first, last] of region.live) {
        for (let i = first; i <= last; i++) this.live[i] += region.bytes;
      }
    }
    this.viewport.reset();
    this.legend.textContent = rank.legend ? `The actions: ${rank.legend}.` : '';
  }

  // Canvas coordinates of the begin of an action, and of an address.
  toX(action) { return this.viewport.toX(action / this.count); }
  toY(address) { return this.viewport.toY(1 - address / this.memory.arena_bytes); }

  paint(context, width, height, view) {
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'middle';
    this.paintLive(context, width);
    const bottom = height - 22;
    context.save();
    context.beginPath();
    context.rect(this.left, curveHeight, width - this.left, bottom - curveHeight);
    context.clip();
    context.fillStyle = cssValue('--lane');
    context.fillRect(this.left, curveHeight, width - this.left, bottom - curveHeight);
    context.strokeStyle = cssValue('--card');
    context.textAlign = 'center';
    for (const region of this.memory.regions) {
      const top = this.toY(region.offset + region.bytes);
      const base = this.toY(region.offset);
      if (base < curveHeight || top > bottom) continue;
      const color = cssValue('--mem-' + region.class);
      for (const [first, last] of region.live) {
        const x = this.toX(first), right = this.toX(last + 1);
        if (right < this.left || x > width) continue;
        context.fillStyle = color;
        context.fillRect(x, top, right - x, Math.max(0.5, base - top));
        if (base - top > 3) context.strokeRect(x, top, right - x, base - top);
        context.fillStyle = '#16191d';
        const from = Math.max(x, this.left), to = Math.min(right, width);
        const high = Math.max(top, curveHeight), low = Math.min(base, bottom);
        boxText(context, region.name, from, high, to - from, low - high);
      }
    }
    context.restore();
    this.paintAxes(context, width, height, view);
  }

  paintLive(context, width) {
    const peak = this.memory.peak_bytes, room = curveHeight - 30;
    const y = bytes => 18 + room * (1 - bytes / peak);
    context.save();
    context.beginPath();
    context.rect(this.left, 0, width - this.left, curveHeight);
    context.clip();
    context.beginPath();
    context.moveTo(this.toX(0), y(0));
    for (let i = 0; i < this.count; i++) {
      context.lineTo(this.toX(i), y(this.live[i]));
      context.lineTo(this.toX(i + 1), y(this.live[i]));
    }
    context.lineTo(this.toX(this.count), y(0));
    context.fillStyle = cssValue('--faint');
    context.fill();
    context.restore();
    context.strokeStyle = cssValue('--soft');
    context.setLineDash([3, 3]);
    context.beginPath();
    context.moveTo(this.left, y(peak));
    context.lineTo(width, y(peak));
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = cssValue('--soft');
    context.textAlign = 'left';
    context.fillText(`bytes in use; at most ${bytesText(peak)} at ` +
                     this.rank.actions[this.memory.peak_action], this.left + 4, 8);
    context.textAlign = 'right';
    context.fillText(bytesText(peak), this.left - 8, y(peak));
    context.fillText('0', this.left - 8, y(0));
  }

  paintAxes(context, width, height, view) {
    context.fillStyle = cssValue('--soft');
    context.textAlign = 'right';
    const top = 1 - view.y0, base = 1 - view.y1, arena = this.memory.arena_bytes;
    // Round numbers in the unit of the text.
    const unit = Math.pow(1024, Math.max(0, Math.floor(Math.log2(arena * (top - base) / 4) / 10)));
    const step = unit * Math.max(unit === 1 ? 1 : 0, niceStep(arena * (top - base) / unit, 5));
    for (let i = Math.ceil(base * arena / step - 1e-9); i * step <= top * arena; i++) {
      const y = Math.max(curveHeight + 6, Math.min(height - 27, this.toY(i * step)));
      context.fillText(bytesText(Math.round(i * step)), this.left - 8, y);
    }
    context.textAlign = 'center';
    const shown = this.count * (view.x1 - view.x0);
    const widest = Math.max(...this.rank.actions.map(
        action => context.measureText(action.slice(0, 10)).width));
    const every = Math.max(1, Math.ceil(shown / ((width - this.left) / (widest + 8))));
    for (let i = Math.max(0, Math.floor(view.x0 * this.count)); i < this.count; i += every) {
      const x = (this.toX(i) + this.toX(i + 1)) / 2;
      const text = this.rank.actions[i].slice(0, 10), half = context.measureText(text).width / 2;
      if (x - half > this.left - 8 && x + half < width) context.fillText(text, x, height - 9);
    }
  }

  hover(place) {
    const action = Math.floor(place.x * this.count);
    if (action < 0 || action >= this.count || place.left < this.left) return null;
    if (place.top < curveHeight) {
      return `${this.rank.actions[action]}: ${bytesText(this.live[action])} live`;
    }
    const address = (1 - place.y) * this.memory.arena_bytes;
    for (const region of this.memory.regions) {
      if (address < region.offset || address >= region.offset + region.bytes) continue;
      const live = region.live.find(([first, last]) => first <= action && action <= last);
      if (live) return this.describe(region, live, address - region.offset);
      return `${region.name} is free at ${this.rank.actions[action]}`;
    }
    return null;
  }

  describe(region, [first, last], at) {
    const actions = this.rank.actions;
    const when = first === 0 && last === this.count - 1 ? 'the whole step' :
        first === last ? actions[first] : `${actions[first]} to ${actions[last]}`;
    const lines = [`${region.name}: ${classNames[region.class]}, ${bytesText(region.bytes)}, ` +
                   `live ${when}`];
    if (region.table >= 0) {
      const tensor = this.tables[region.table].find(
          ([, offset, bytes]) => at >= offset && at < offset + bytes);
      if (tensor) lines.unshift(`${tensor[0]} ${tensor[3]}, ${bytesText(tensor[2])}`);
    }
    return lines.join('\n');
  }
}

function drawMemory(ranks) {
  if (!ranks || !ranks.ranks.length) return;
  const map = new MemoryMap(ranks);
  const controls = html('div', 'bar', ...map.viewport.buttons('memory'));
  if (ranks.ranks.length > 1) {
    controls.append(dropDown('memory-rank', ranks.ranks.map((rank, i) =>
        [i, `rank ${rank.rank}` + (rank.coords ? `: ${rank.coords}` : '')]),
        index => map.choose(ranks.ranks[index])));
  }
  controls.append(html('span', 'gap'), ...Object.keys(classNames).filter(
      name => ranks.ranks.some(rank => rank.memory.regions.some(region => region.class === name))).map(
      name => legendKey(`var(--mem-${name})`, classNames[name])));
  fill('memory', html('div', 'card', controls, map.viewport.canvas),
       html('p', 'soft', 'This map shows the memory plan. Each column is an action of the program, ' +
            'each row an address. Memory without a colour is free. Use the mouse wheel to ' +
            'zoom and drag to move.'), map.legend);
  map.viewport.draw();
}
