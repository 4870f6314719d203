#include "cli/diagnosis_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {
namespace {

constexpr size_t kShownFindings = 4;  // the rest is in --json and on the page

std::string remedy_text(const StepFinding& finding) {
  if (finding.setting.empty()) return "no other setting that was priced is faster";
  return fmt::format("{}: {:.1f} % of the step less", finding.setting, 100.0 * finding.gain);
}

}  // namespace

std::string diagnosis_text(std::span<const StepFinding> findings) {
  std::string text;
  for (const StepFinding& finding : findings.first(std::min(findings.size(), kShownFindings))) {
    text += fmt::format("{:<10} {}: {}\n{:13}{}\n", text.empty() ? "diagnosis" : "",
                        name_of(finding.kind), finding.sentence, "", remedy_text(finding));
  }
  return text;
}

}  // namespace trireme
