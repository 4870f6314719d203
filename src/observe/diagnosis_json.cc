#include "observe/diagnosis_json.h"

#include <nlohmann/json.hpp>

namespace trireme {

nlohmann::ordered_json diagnosis_json(std::span<const StepFinding> findings) {
  auto all = nlohmann::ordered_json::array();
  for (const StepFinding& finding : findings) {
    all.push_back({{"kind", name_of(finding.kind)},
                   {"share", finding.share},
                   {"sentence", finding.sentence},
                   {"setting", finding.setting},
                   {"gain", finding.gain}});
  }
  return all;
}

}  // namespace trireme
