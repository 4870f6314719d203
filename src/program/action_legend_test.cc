#include "program/action_legend.h"

#include <gtest/gtest.h>

#include <cctype>

#include "program/make_schedule.h"

namespace trireme {
namespace {

// The letters with which the text of an action begins: "BW" of "BW3+".
std::string code_of(const Action& action, int num_chunks) {
  const std::string text = to_string(action, num_chunks);
  size_t end = 0;
  while (end < text.size() && std::isalpha(static_cast<unsigned char>(text[end])) != 0) ++end;
  return text.substr(0, end);
}

// Every code and every mark of every schedule stands in its legend, and no code that is not used.
TEST(ActionLegend, ExplainsWhatOccursAndNothingElse) {
  for (const std::string& kind : schedule_kinds()) {
    const Result<Schedule> schedule = make_schedule(kind, {4, 8, 0});
    ASSERT_TRUE(schedule.ok()) << kind << ": " << schedule.error().message;
    for (Program program : schedule->programs) {
      program.push_back({.kind = ActionKind::Step, .chunk = -1, .microbatch = -1});
      const std::string legend = ", " + action_legend(program, schedule->num_chunks);
      for (const Action& action : program) {
        EXPECT_NE(legend.find(", " + code_of(action, schedule->num_chunks)), std::string::npos)
            << kind << ": " << to_string(action, schedule->num_chunks) << " in" << legend;
      }
      EXPECT_EQ(legend.find("Unshard"), std::string::npos) << legend;
      EXPECT_EQ(legend.find("chunk") != std::string::npos, schedule->num_chunks > 1) << legend;
    }
  }
}

// A program may hold one kind of a pair alone, so no entry refers to the words of another one.
TEST(ActionLegend, EveryEntryIsUnderstoodAlone) {
  for (int kind = 0; kind <= int(ActionKind::Validate); ++kind) {
    const std::string entry = " " + action_legend({{.kind = ActionKind(kind)}}, 1) + " ";
    for (const char* word : {" it ", " it,", " them ", " them,", " those "}) {
      EXPECT_EQ(entry.find(word), std::string::npos) << entry;
    }
  }
}

// Each kind of action that any program may hold has words, and marks are explained if they occur.
TEST(ActionLegend, EveryKindHasWords) {
  for (int kind = 0; kind <= int(ActionKind::Validate); ++kind) {
    const Program program = {{.kind = ActionKind(kind)}};
    EXPECT_NE(action_legend(program, 1).find(std::string(name_of(ActionKind(kind))).substr(0, 1)),
              std::string::npos)
        << kind;
  }
  const Program marked = {
      {.kind = ActionKind::BW, .microbatch = 1, .grad_slot = 1, .accumulate = true},
      {.kind = ActionKind::SendGrad, .microbatch = 1, .peer = 0}};
  const std::string legend = action_legend(marked, 1);
  for (const char* part : {"+ adds", "@1 in slot", ">1 to rank"}) {
    EXPECT_NE(legend.find(part), std::string::npos) << legend;
  }
  EXPECT_EQ(legend.find("<1"), std::string::npos) << legend;
}

}  // namespace
}  // namespace trireme
