// Files of failure rules, and what runs record about failures: any rules classify any evidence, and
// no rule of an accepted file applies to a failure about which nothing is known.

#include <cstdlib>
#include <string_view>

#include "config/failure_rules_file.h"
#include "failures/classify.h"
#include "observe/recorded_failures.h"

using namespace trireme;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    const Result<FailureRules> rules = parse_failure_rules(text, "rules.toml");
    if (!rules.ok()) {
      if (rules.error().message.empty()) std::abort();
      return 0;
    }
    if (classify({}, *rules).failure_class != FailureClass::Unknown) std::abort();
    classify({.kind = "failed", .exit_code = 4, .last_words = "no space left on device"}, *rules);
    return 0;
  }
  const Result<std::vector<RecordedFailure>> failures = failures_of_metrics(text, "metrics.jsonl");
  if (!failures.ok()) {
    if (failures.error().message.empty()) std::abort();
    return 0;
  }
  const FailureRules rules = built_in_failure_rules();
  for (const RecordedFailure& failure : *failures) classify(failure.evidence, rules);
  return 0;
}
