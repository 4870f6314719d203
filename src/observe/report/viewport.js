// A canvas that can be zoomed and moved with the wheel, by dragging, with buttons and keys. The
// content has coordinates in [0, 1] x [0, 1]; the view is the visible part of it, inside the
// margins of the canvas.
class Viewport {
  // draw(context, width, height, view) draws the view. Options: margins {left, top, bottom}; both:
  // the wheel also zooms y; least: the smallest part that may fill the canvas; onHover(place)
  // returns the text of the tip; onView(view) is called when the view changes.
  constructor(id, label, height, draw, options = {}) {
    this.whole = {x0: 0, x1: 1, y0: 0, y1: 1};
    this.view = {...this.whole};
    this.both = options.both || false;
    this.least = options.least || 1e-4;
    this.margins = {left: 0, top: 0, bottom: 0, ...options.margins};
    this.height = height;
    this.paint = draw;
    this.onView = options.onView || (() => {});
    this.canvas = html('canvas');
    this.canvas.id = id;
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute('role', 'img');
    this.canvas.setAttribute('aria-label', label);
    this.listen(options.onHover || (() => null));
    onRedraw(() => this.draw());
  }

  draw() {
    const width = this.canvas.clientWidth, scale = devicePixelRatio || 1;
    if (!width) return;
    this.canvas.style.height = this.height + 'px';
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(this.height * scale);
    const context = this.canvas.getContext('2d');
    context.scale(scale, scale);
    context.clearRect(0, 0, width, this.height);
    this.paint(context, width, this.height, this.view);
    this.onView(this.view);
  }

  show(view) {
    const fit = (from, to) => {
      const length = Math.min(1, Math.max(this.least, to - from));
      const begin = Math.max(0, Math.min(1 - length, from));
      return [begin, begin + length];
    };
    const [x0, x1] = fit(view.x0, view.x1), [y0, y1] = fit(view.y0, view.y1);
    this.view = {x0, x1, y0, y1};
    this.draw();
  }
  reset() { this.show(this.whole); }
  // factor < 1 zooms in, around the point (at_x, at_y) of the canvas in [0, 1].
  zoom(factor, at_x = 0.5, at_y = 0.5) {
    const {x0, x1, y0, y1} = this.view, x = x0 + at_x * (x1 - x0), y = y0 + at_y * (y1 - y0);
    const far = factor > 1 && x1 - x0 >= 1;
    const down = this.both ? factor : 1;
    this.show({x0: far ? 0 : x - (x - x0) * factor, x1: far ? 1 : x + (x1 - x) * factor,
               y0: y - (y - y0) * down, y1: y + (y1 - y) * down});
  }
  move(part_x, part_y = 0) {
    const {x0, x1, y0, y1} = this.view, dx = part_x * (x1 - x0), dy = part_y * (y1 - y0);
    this.show({x0: x0 + dx, x1: x1 + dx, y0: y0 + dy, y1: y1 + dy});
  }

  buttons(name) {
    const named = (key, text, title, action) => {
      const element = button(text, title, action);
      element.id = name + '-' + key;
      return element;
    };
    return [named('in', '+', 'zoom in (+)', () => this.zoom(0.6)),
            named('out', '−', 'zoom out (-)', () => this.zoom(1 / 0.6)),
            named('left', '◂', 'move left (arrow)', () => this.move(-0.25)),
            named('right', '▸', 'move right (arrow)', () => this.move(0.25)),
            named('whole', 'whole', 'show all of it (0)', () => this.reset())];
  }

  // The pointer on the canvas (left, top), inside its margins (at_x, at_y), and in the content (x,
  // y).
  place(event) {
    const box = this.canvas.getBoundingClientRect(), {left, top, bottom} = this.margins;
    const at_x = (event.clientX - box.left - left) / (box.width - left);
    const at_y = (event.clientY - box.top - top) / (box.height - top - bottom);
    const {x0, x1, y0, y1} = this.view;
    return {at_x, at_y, x: x0 + at_x * (x1 - x0), y: y0 + at_y * (y1 - y0),
            left: event.clientX - box.left, top: event.clientY - box.top};
  }
  // Returns the position on the canvas of a point of the content.
  toX(x) {
    const {left} = this.margins, {x0, x1} = this.view;
    return left + (x - x0) / (x1 - x0) * (this.canvas.clientWidth - left);
  }
  toY(y) {
    const {top, bottom} = this.margins, {y0, y1} = this.view;
    return top + (y - y0) / (y1 - y0) * (this.height - top - bottom);
  }

  listen(onHover) {
    const canvas = this.canvas;
    let last = null;
    canvas.addEventListener('wheel', event => {
      event.preventDefault();
      const {at_x, at_y} = this.place(event);
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.move(event.deltaX / 800);
      else this.zoom(event.deltaY < 0 ? 0.8 : 1.25, at_x, at_y);
    }, {passive: false});
    canvas.addEventListener('pointerdown', event => {
      last = this.place(event);
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointerup', () => { last = null; });
    canvas.addEventListener('pointercancel', () => { last = null; });
    canvas.addEventListener('pointermove', event => {
      const here = this.place(event);
      if (last) {
        hideTip();
        this.move(last.at_x - here.at_x, last.at_y - here.at_y);
        last = here;
        return;
      }
      const text = onHover(here);
      if (text) showTip(event, text); else hideTip();
    });
    canvas.addEventListener('pointerleave', hideTip);
    canvas.addEventListener('keydown', event => {
      const keys = {'+': () => this.zoom(0.6), '=': () => this.zoom(0.6),
                    '-': () => this.zoom(1 / 0.6), '0': () => this.reset(),
                    Home: () => this.reset(), ArrowLeft: () => this.move(-0.15),
                    ArrowRight: () => this.move(0.15), ArrowUp: () => this.move(0, -0.15),
                    ArrowDown: () => this.move(0, 0.15)};
      const upDown = event.key === 'ArrowUp' || event.key === 'ArrowDown';
      if (!keys[event.key] || event.ctrlKey || event.metaKey || (upDown && !this.both)) return;
      event.preventDefault();
      keys[event.key]();
    });
  }
}

// Draws text inside a box if there is room for it, else its shorter form, if it has one.
function boxText(context, text, x, y, width, height, shorter) {
  if (width < 8 || height < 11) return;
  if (context.measureText(text).width > width - 4) {
    if (!shorter || context.measureText(shorter).width > width - 2) return;
    text = shorter;
  }
  context.fillText(text, x + width / 2, y + height / 2);
}
