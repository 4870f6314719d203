// Functions with which all parts of the page draw and write.
const data = JSON.parse(document.getElementById('data').textContent);
const byId = id => document.getElementById(id);
const html = (name, className, ...children) => {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.append(...children.filter(child => child != null));
  return element;
};
const svg = (name, attributes, text) => {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (text !== undefined) element.textContent = text;
  return element;
};

// ---- numbers as text

function bytesText(bytes) {
  if (bytes == null) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; Math.abs(bytes) >= 1024 && unit < 4; unit++) bytes /= 1024;
  return (unit ? bytes.toFixed(1) : bytes) + ' ' + units[unit];
}
function countText(count) {
  const units = ['', 'k', 'M', 'B', 'T', 'P'];
  let unit = 0;
  for (; Math.abs(count) >= 1000 && unit < 5; unit++) count /= 1000;
  return (unit ? count.toFixed(1) : Math.round(count)) + units[unit];
}
function secondsText(s) {
  if (s == null) return '–';
  const size = Math.abs(s);
  if (size === 0) return '0';
  if (size < 1e-3) return +(s * 1e6).toPrecision(3) + ' µs';
  if (size < 1) return +(s * 1e3).toPrecision(4) + ' ms';
  return size < 120 ? s.toFixed(2) + ' s' : (s / 60).toFixed(1) + ' min';
}
function numberText(value) {
  if (value == null) return '–';
  return Math.abs(value) >= 1e4 ? countText(value) : String(+value.toPrecision(4));
}
// "1 document", "2 documents".
const countOf = (count, what) => `${count} ${what}${count === 1 ? '' : 's'}`;
const percentText = (part, digits = 1) => (100 * part).toFixed(digits) + ' %';
// The relative error of a prediction, shown beside the measured value.
function errorText(predicted, measured) {
  if (predicted == null || !measured) return '–';
  const error = predicted / measured - 1;
  return (error < 0 ? '−' : '+') + percentText(Math.abs(error));
}

// ---- widths

// Returns the width of a picture inside a card in pixels, in a column of the charts or over the
// whole page. Pictures are drawn for this width, so that their text keeps its size. The numbers are
// those of style.css.
function pictureWidth(isWide) {
  const page = document.documentElement.clientWidth, isNarrow = page <= 640;
  const whole = Math.min(1160, page) - (isNarrow ? 24 : 40), inCard = isNarrow ? 26 : 34, gap = 12;
  const columns = isWide ? 1 : Math.max(1, Math.floor((whole + gap) / (430 + gap)));
  return Math.max(240, Math.floor((whole - gap * (columns - 1)) / columns) - inCard);
}

// ---- the tip at the pointer

function showTip(event, text) {
  const tip = byId('tip');
  tip.textContent = text;
  tip.style.display = 'block';
  const left = event.clientX + 14, top = event.clientY + 16;
  tip.style.left = Math.max(4, Math.min(left, innerWidth - tip.offsetWidth - 8)) + 'px';
  tip.style.top = (top + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10
                                                        : top) + 'px';
}
const hideTip = () => { byId('tip').style.display = 'none'; };

// ---- controls

function button(text, title, onClick) {
  const element = html('button', '', text);
  element.type = 'button';
  if (title) element.title = title;
  element.addEventListener('click', onClick);
  return element;
}
// A choice of one option. `id` names the group; each button has data-value.
function choice(id, values, chosen, onChoose) {
  const group = html('span', 'choice');
  group.id = id;
  for (const [value, text] of values) {
    const element = button(text, '', () => {
      for (const other of group.children) other.setAttribute('aria-pressed', other === element);
      onChoose(value);
    });
    element.dataset.value = value;
    element.setAttribute('aria-pressed', value === chosen);
    group.append(element);
  }
  return group;
}
function dropDown(id, values, onChoose) {
  const element = html('select');
  element.id = id;
  for (const [value, text] of values) {
    const option = html('option', '', text);
    option.value = value;
    element.append(option);
  }
  element.addEventListener('change', () => onChoose(element.value));
  return element;
}
function legendKey(color, text) {
  const mark = html('i');
  mark.style.background = color;
  return html('span', 'key', mark, text);
}
// On a narrow page, each row of a table with more columns becomes a list (style.css).
const mostColumnsOnPhones = 4;
function table(head, rows, mostColumns = mostColumnsOnPhones) {
  const element = html('table', head.length > mostColumns ? 'stacks' : '');
  const names = head.map(cell => cell instanceof HTMLElement ? cell.textContent : cell ?? '');
  const line = (cells, name) => {
    const row = html('tr');
    cells.forEach((cell, i) => {
      const own = cell instanceof HTMLTableCellElement ? cell : html(name, '', cell ?? '');
      own.dataset.name = names[i] ?? '';
      row.append(own);
    });
    element.append(row);
  };
  line(head, 'th');
  for (const row of rows) line(row, 'td');
  return html('div', 'scroll', element);
}
const cell = (className, text) => html('td', className, text);

// A section of the page is shown once it has content.
function fill(id, ...children) {
  const section = byId(id);
  if (!section.children.length) section.append(html('h2', '', section.dataset.title));
  section.append(...children.filter(child => child != null));
}

// ---- colours

const cssValue = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const redraws = [];  // of canvases, which do not follow the theme by themselves
function onRedraw(draw) {
  redraws.push(draw);
  addEventListener('resize', draw);
}
const redrawAll = () => { for (const draw of redraws) draw(); };

function setUpTheme() {
  const themes = ['system', 'light', 'dark'], symbols = {system: '◐', light: '☀', dark: '☾'};
  let current = 0;
  const show = () => {
    const theme = themes[current];
    if (theme === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    byId('theme').textContent = symbols[theme] + ' ' + theme;
    redrawAll();
  };
  byId('theme').addEventListener('click', () => {
    current = (current + 1) % themes.length;
    show();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redrawAll);
  show();
}
