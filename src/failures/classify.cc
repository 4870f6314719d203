#include "failures/classify.h"

#include <fmt/format.h>

#include <optional>

namespace trireme {
namespace {

constexpr double kLeastConfidence = 0.5;
constexpr double kLeastLead = 0.05;  // over a rule of another class

int64_t value_of(EvidenceCounter counter, const FailureEvidence& evidence) {
  switch (counter) {
    case EvidenceCounter::None:
      return 0;
    case EvidenceCounter::OomKills:
      return evidence.oom_kills;
    case EvidenceCounter::DiskErrors:
      return evidence.disk_errors;
    case EvidenceCounter::NetworkErrors:
      return evidence.network_errors;
    case EvidenceCounter::MemoryErrors:
      return evidence.memory_errors;
    case EvidenceCounter::DeviceErrors:
      return evidence.device_errors;
    case EvidenceCounter::ThrottledMs:
      return evidence.throttled_ms;
    case EvidenceCounter::NonfiniteSteps:
      return evidence.nonfinite_steps;
  }
  return 0;
}

std::string_view line_with(const TextPattern& pattern, EvidenceText in,
                           const FailureEvidence& evidence) {
  if (in == EvidenceText::Rank) return pattern.find_in(evidence.last_words);
  for (const std::string& text :
       in == EvidenceText::Peers ? evidence.peers_words : evidence.kernel_lines) {
    const std::string_view line = pattern.find_in(text);
    if (!line.empty()) return line;
  }
  return "";
}

// Returns what makes the rule apply, or nullopt if it does not.
std::optional<std::string> reason_to_apply(const FailureRule& rule,
                                           const FailureEvidence& evidence) {
  std::string reason;
  const auto add = [&](const std::string& text) { reason += (reason.empty() ? "" : "; ") + text; };
  if (!rule.kind.empty()) {
    if (rule.kind != evidence.kind) return std::nullopt;
    add("kind " + rule.kind);
  }
  if (rule.signal != 0) {
    if (rule.signal != evidence.signal) return std::nullopt;
    add(fmt::format("signal {}", evidence.signal));
  }
  if (rule.exit_code >= 0) {
    if (evidence.exit_code != rule.exit_code) return std::nullopt;
    add(fmt::format("exit code {}", rule.exit_code));
  }
  if (rule.counter != EvidenceCounter::None) {
    const int64_t value = value_of(rule.counter, evidence);
    if (value <= 0) return std::nullopt;
    add(fmt::format("{} = {}", kEvidenceCounterNames[static_cast<uint8_t>(rule.counter)], value));
  }
  if (!rule.pattern.empty()) {
    const std::string_view line = line_with(rule.pattern, rule.in, evidence);
    if (line.empty()) return std::nullopt;
    add(std::string(line));
  }
  return reason;
}

}  // namespace

Classification classify(const FailureEvidence& evidence, const FailureRules& rules) {
  const FailureRule* best = nullptr;
  std::string reason;
  for (const FailureRule& rule : rules.rules) {
    if (best != nullptr && rule.confidence <= best->confidence) continue;
    std::optional<std::string> applies = reason_to_apply(rule, evidence);
    if (!applies) continue;
    best = &rule;
    reason = std::move(*applies);
  }
  const Classification unknown{.evidence = reason,
                               .remedy = rules.advice_of(FailureClass::Unknown).remedy};
  if (best == nullptr || best->confidence <= kLeastConfidence) return unknown;
  for (const FailureRule& rule : rules.rules) {
    const bool is_other = rule.failure_class != best->failure_class;
    const bool is_close = rule.confidence > best->confidence - kLeastLead;
    if (is_other && is_close && reason_to_apply(rule, evidence)) return unknown;
  }
  return {
      .failure_class = best->failure_class,
      .confidence = best->confidence,
      .rule = best->name,
      .evidence = std::move(reason),
      .remedy = best->remedy.empty() ? rules.advice_of(best->failure_class).remedy : best->remedy};
}

}  // namespace trireme
