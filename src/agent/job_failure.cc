#include "agent/job_failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/chrome_trace.h"
#include "base/json_text.h"
#include "failures/evidence_json.h"

namespace trireme {
namespace {

// Lines of failures are given to the next epoch in an EpochOrder, which has little room.
constexpr size_t kMostCause = 2048;
constexpr size_t kMostLine = 6000;

}  // namespace

std::string cause_of(const JobFailure& failure) {
  if (failure.rank < 0) return failure.what;
  if (failure.cause.empty()) {
    return fmt::format("rank {} has died: it {}", failure.rank, failure.what);
  }
  return fmt::format("rank {}: {}", failure.rank, failure.cause);
}

std::string evidence_folder(const std::string& run_dir, int number) {
  return fmt::format("{}/{}/{:03}", run_dir, kFailuresFolder, number);
}

int last_evidence_in(const std::string& run_dir) {
  int last = 0;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(run_dir + "/" + kFailuresFolder, error)) {
    last = std::max(last, std::atoi(entry.path().filename().c_str()));
  }
  return last;
}

void take_evidence(const char* text, FailureEvidence& evidence) {
  const Result<nlohmann::json> json = parse_bounded_json(text);
  if (!json.ok() || !json->is_object()) return;
  try {
    evidence = evidence_in(*json);
  } catch (const nlohmann::json::exception&) {
    return;
  }
}

// `class` has always been the kind here, but the class of the rules elsewhere. So a line has both
// under names that mean the same everywhere: `kind` and `failure_class`.
std::string failure_line(const JobFailure& failure, int number) {
  using Json = nlohmann::ordered_json;
  Json line = {{"class", failure.kind},
               {"rank", failure.rank},
               {"host", failure.host},
               {"epoch", failure.epoch},
               {"detected_ms", failure.detected_after_s * 1e3},
               {"evidence", failure.what},
               {"number", number},
               {"failure_class", name_of(failure.found.failure_class)},
               {"confidence", failure.found.confidence},
               {"rule", failure.found.rule}};
  FailureEvidence evidence = failure.evidence;
  evidence.kind = failure.kind;
  line.update(evidence_json(evidence));
  if (failure.is_left_out) line["left_out"] = true;
  if (failure.goes_back_to >= 0) {
    line["goes_back_to"] = failure.goes_back_to;
    line["why_back"] = failure.why_back;
  }
  std::string fields = lenient_json_text(line);
  fields.front() = ',';
  std::string text;
  for (size_t most = kMostCause; most > 0; most /= 2) {  // escaped text may be longer
    text = fmt::format("{{\"event\":\"failure\",\"step\":{},\"time\":{:.3f},\"cause\":\"{}\"{}\n",
                       failure.step, failure.time_s,
                       json_escaped(cause_of(failure).substr(0, most)), fields);
    if (text.size() < kMostLine) break;
  }
  return text;
}

}  // namespace trireme
