#include "agent/summary_alarm.h"

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/file.h"
#include "failures/evidence_json.h"

namespace trireme {
namespace {

constexpr int64_t kMostSummaryBytes = int64_t{64} << 20;

}  // namespace

std::optional<CorruptionAlarm> alarm_of_summary(const std::string& run_dir, double since_s) {
  const std::string path = run_dir + "/summary.json";
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return std::nullopt;
  const double written_s = double(facts.st_mtim.tv_sec) + 1e-9 * double(facts.st_mtim.tv_nsec);
  if (written_s < since_s) return std::nullopt;
  const Result<std::string> text = read_text_file(path, kMostSummaryBytes);
  if (!text.ok()) return std::nullopt;
  const Result<nlohmann::json> json = parse_bounded_json(*text);
  if (!json.ok() || !json->is_object()) return std::nullopt;
  try {
    if (json->value("end", "") != "corrupt") return std::nullopt;
    auto line = nlohmann::json::object();
    line["corruption"] = json->at("corruptions").back();
    return evidence_in(line).corruption;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace trireme
