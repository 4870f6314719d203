#include "schema/program.h"

#include <gtest/gtest.h>

#include <set>

namespace trireme {
namespace {

// Kinds may share a name; the text of an action still says which one it is.
TEST(Program, ActionsOfDifferentKindsAreSpelledDifferently) {
  const std::vector<std::pair<Action, std::string>> spellings = {
      {{.kind = ActionKind::F, .microbatch = 3}, "F3"},
      {{.kind = ActionKind::FB, .microbatch = 4, .chunk_b = 0, .microbatch_b = 1}, "F4&BW1"},
      {{.kind = ActionKind::W, .microbatch = 2, .grad_slot = 1, .accumulate = true}, "W2+@1"},
      {{.kind = ActionKind::SendActivation, .microbatch = 3, .peer = 2}, "SF3>2"},
      {{.kind = ActionKind::RecvGrad, .microbatch = 3, .peer = 2}, "RB3<2"},
      {{.kind = ActionKind::SumGrad, .microbatch = -1, .grad_slot_b = 1}, "Sum@0+@1"},
      {{.kind = ActionKind::JoinDirections, .microbatch = -1, .peer = 1}, "Sum@0+&1"},
      {{.kind = ActionKind::ReduceGrad, .microbatch = -1, .first_unit = 2, .num_units = 3},
       "Reduce[2:5]"},
      {{.kind = ActionKind::JoinTiedTable, .microbatch = -1, .peer = 1}, "Reduce&1"},
      {{.kind = ActionKind::FetchUnits, .microbatch = -1, .num_units = 1}, "Fetch[0]"},
      {{.kind = ActionKind::FetchPiece, .microbatch = 0}, "Fetch0"},
      {{.kind = ActionKind::OffloadUnits, .microbatch = -1, .num_units = 1}, "Offload[0]"},
      {{.kind = ActionKind::OffloadPiece, .microbatch = 0}, "Offload0"},
      {{.kind = ActionKind::Step, .chunk = -1, .microbatch = -1}, "Step"},
      {{.kind = ActionKind::StepPiece, .microbatch = 0}, "Step0"},
      {{.kind = ActionKind::Validate, .chunk = -1, .microbatch = -1}, "Validate"},
  };
  std::set<std::string> seen;
  for (const auto& [action, text] : spellings) {
    EXPECT_EQ(to_string(action, 1), text);
    EXPECT_TRUE(seen.insert(to_string(action, 2)).second) << text;
  }
}

}  // namespace
}  // namespace trireme
