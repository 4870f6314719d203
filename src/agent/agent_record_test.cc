#include "agent/agent_record.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace trireme {
namespace {

// Runs the function in a process of its own, which then ends at once.
template <typename Work>
void in_another_process(const Work& work) {
  const int pid = fork();
  if (pid == 0) {
    work();
    _exit(0);
  }
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
}

TEST(AgentRecord, OutlivesTheAgentsThatHaveWrittenIt) {
  auto record = AgentRecord::make();
  ASSERT_TRUE(record.ok());
  EXPECT_TRUE(record->failures().empty());
  EXPECT_FALSE(record->end().has_value());
  for (const int step : {3, 8}) {
    in_another_process([&] {
      record->add({.step = step, .kind = "killed", .what = "a line\nand another", .host = "h"});
    });
  }
  in_another_process([&] { record->set_end(RanksEnd{.exit_code = 5, .first_failed = 2}); });
  const auto failures = record->failures();
  ASSERT_EQ(failures.size(), 2U);
  EXPECT_EQ(failures[0].step, 3);
  EXPECT_EQ(failures[1].step, 8);
  EXPECT_EQ(failures[1].what, "a line\nand another");
  const auto end = record->end();
  ASSERT_TRUE(end && end->ok());
  EXPECT_EQ((**end).exit_code, 5);
  EXPECT_EQ((**end).first_failed, 2);
}

TEST(AgentRecord, AnErrorKeepsItsKindAndMessage) {
  for (const ErrorKind kind :
       {ErrorKind::Usage, ErrorKind::Infeasible, ErrorKind::Damaged, ErrorKind::Runtime}) {
    auto record = AgentRecord::make();
    ASSERT_TRUE(record.ok());
    in_another_process([&] { record->set_end(Error{kind, "two\nlines"}); });
    const auto end = record->end();
    ASSERT_TRUE(end && !end->ok());
    EXPECT_EQ(end->error().kind, kind);
    EXPECT_EQ(end->error().message, "two\nlines");
  }
}

}  // namespace
}  // namespace trireme
