// How the visits of a step are spread over the experts: one row per expert, steps from left to
// right.
const mostColumns = 160;

function expertMap(run) {
  const lines = run.metrics.train.filter(line => line.expert_share);
  if (!lines.length) return null;
  const every = Math.ceil(lines.length / mostColumns);
  const columns = [];
  for (let i = 0; i < lines.length; i += every) columns.push(lines.slice(i, i + every));
  const count = lines[0].expert_share.length;
  const W = pictureWidth(true), L = 56, R = 14;
  const row = Math.max(3, Math.min(18, Math.floor(280 / count)));
  const H = count * row + 26, width = (W - L - R) / columns.length;
  const picture = svg('svg', {viewBox: `0 0 ${W} ${H}`, role: 'img',
                              'aria-label': 'share of every expert over the run'});
  columns.forEach((group, i) => {
    for (let expert = 0; expert < count; expert++) {
      const share = group.reduce((sum, line) => sum + line.expert_share[expert], 0) / group.length;
      const box = svg('rect', {x: L + i * width, y: expert * row, width: width + 0.3,
                               height: Math.max(1, row - 1), fill: 'var(--s0)',
                               'fill-opacity': Math.min(1, share * count / 2).toFixed(3)});
      box.addEventListener('mousemove', event => showTip(event,
          `expert ${expert}, ${xTitle[curveChoices.x]} ${numberText(xOf(run, group[0]))}\n` +
          `${percentText(share)} of all visits, ${(share * count).toFixed(2)} of an even share`));
      box.addEventListener('mouseleave', hideTip);
      picture.append(box);
    }
  });
  for (const expert of [...new Set([0, count - 1])]) {
    picture.append(svg('text', {x: L - 7, y: expert * row + row / 2 + 4, 'text-anchor': 'end'},
                       String(expert)));
  }
  picture.append(
      svg('text', {x: L, y: H - 8}, numberText(xOf(run, lines[0]))),
      svg('text', {x: W - R, y: H - 8, 'text-anchor': 'end'},
          `${xTitle[curveChoices.x]} ${numberText(xOf(run, lines[lines.length - 1]))}`));
  const scale = html('span', 'soft', 'of an even share: ');
  for (const part of [0.5, 1, 2]) {
    const key = legendKey('var(--s0)', part === 2 ? '2 or more' : String(part));
    key.querySelector('i').style.opacity = part / 2;
    scale.append(key, ' ');
  }
  return html('div', 'card wide', html('div', 'bar', html('h3', '', 'Visits of every expert'),
                                       html('span', 'gap'), scale), picture);
}
