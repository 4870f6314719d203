// The page of a plan or of a schedule: predictions of a run that has not been made.
function rankBars(ranks, label, amounts, color, names) {
  const rows = ranks.map(rank => ({rank, name: '', parts: Object.entries(amounts(rank))
      .filter(([, amount]) => amount > 0)}));
  const used = new Set(rows.flatMap(row => row.parts.map(part => part[0])));
  if (!used.size) return null;
  return html('div', 'card', html('h3', '', label),
      html('div', 'bar', ...Object.keys(names).filter(name => used.has(name))
          .map(name => legendKey(color(name), names[name]))),
      stackedBars(rows, label, color, bytesText));
}

function drawPlan(plan) {
  byId('title').textContent = plan.name;
  byId('subtitle').textContent = plan.subtitle;
  for (const [name, value] of plan.facts) {
    byId('tiles').append(html('div', 'card tile', html('span', 'soft', name), html('b', '', value)));
  }
  if (plan.layouts) {
    const [head, ...rows] = plan.layouts;
    const withText = (row, name) => [...row.slice(0, -1), html(name, 'text', row.at(-1))];
    fill('layouts', html('div', 'card', table(withText(head, 'th'),
                                              rows.map(row => withText(row, 'td')))));
  }
  byId('bytes').dataset.title = 'Memory and traffic of the ranks';
  drawWhatIf(plan.what_if);
  drawGoodput(plan.goodput);
  drawTimeline(plan.ranks);
  if (!plan.summary) return;
  drawAttribution(plan.summary);
  drawDiagnosis(plan.summary.diagnosis);
  drawMemory(plan.ranks);
  const shown = plan.summary.ranks;
  const axisNames = Object.fromEntries(axes.map(axis => [axis, axis]));
  fill('bytes',
       rankBars(shown, 'Memory by class, each class at its own peak', rank => {
         const {peak, ...classes} = rank.memory.predicted;
         return classes;
       }, name => `var(--mem-${name})`, classNames),
       rankBars(shown, 'Sent in a step, by axis', rank => rank.traffic.predicted,
                axis => `var(--time-${axis})`, axisNames));
  drawConfiguration(plan);
}
