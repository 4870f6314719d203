#include "failures/evidence_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trireme {
namespace {

TEST(EvidenceJson, ComesBackWithoutTheLastWords) {
  const FailureEvidence evidence{.kind = "hang",
                                 .exit_code = 5,
                                 .signal = 11,
                                 .last_words = "said",
                                 .peers_words = {"a", "b"},
                                 .kernel_lines = {"c"},
                                 .oom_kills = 1,
                                 .disk_errors = 2,
                                 .network_errors = 3,
                                 .memory_errors = 4,
                                 .device_errors = 5,
                                 .throttled_ms = 6,
                                 .nonfinite_steps = 7,
                                 .was_first = false,
                                 .phase = "save",
                                 .action = 8,
                                 .call = 9,
                                 .watchdog = "w"};
  const nlohmann::json json = evidence_json(evidence);
  const FailureEvidence same = evidence_in(json);
  EXPECT_EQ(nlohmann::json(evidence_json(same)), json);
  EXPECT_EQ(json.size(), 17u);
  EXPECT_TRUE(same.last_words.empty());
}

TEST(EvidenceJson, OfNothingIsEmpty) {
  EXPECT_TRUE(evidence_json({}).empty());
  EXPECT_EQ(evidence_text({}), "");
  EXPECT_EQ(evidence_text({.signal = 9, .oom_kills = 2, .phase = "step"}),
            "signal 9, in phase step, oom_kills 2");
}

}  // namespace
}  // namespace trireme
