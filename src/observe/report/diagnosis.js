// This section shows the findings of a diagnosis and the effect of disturbances on a step.
function drawDiagnosis(findings) {
  if (!findings || !findings.length) return;
  const rows = findings.map(finding => [
    finding.kind, percentText(finding.share), cell('text', finding.sentence),
    cell('text', finding.setting || 'none of the settings that were priced'),
    finding.setting ? percentText(finding.gain) : '–']);
  fill('diagnosis', html('div', 'card', table(
      ['', 'of the step', html('th', 'text', 'why'), html('th', 'text', 'what would change it'),
       'predicted gain'], rows)));
}

function drawWhatIf(whatIf) {
  if (!whatIf) return;
  const longer = seconds => '+' + percentText(seconds / whatIf.undisturbed_s);
  const causes = whatIf.causes.map(cause => [
    cause.option, secondsText(cause.alone_s), longer(cause.added_s)]);
  causes.push(['all together', secondsText(whatIf.step_s), longer(whatIf.added_s)]);
  const waiting = whatIf.waiting.map(group => [
    group.who, countText(group.ranks), secondsText(group.in_transfers_s),
    secondsText(group.in_layers_s), secondsText(group.for_stages_s),
    secondsText(group.at_end_s)]);
  fill('what-if',
       html('p', '', `The step takes ${secondsText(whatIf.step_s)} instead of ` +
            `${secondsText(whatIf.undisturbed_s)}. Below, the timeline of every rank has a second ` +
            'row for it.'),
       html('div', 'card', table(['', 'step', 'longer by'], causes)),
       html('div', 'card', html('h3', '', 'What ranks wait for longer than before, in the mean'),
            table(['', 'ranks', 'in transfers', 'inside layers', 'for other stages',
                   'at the end of the step'], waiting)));
}
