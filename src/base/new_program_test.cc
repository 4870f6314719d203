#include "base/new_program.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <thread>

namespace trireme {
namespace {

// Returns the exit code of the program in a child process; 100 + errno if it cannot be started.
int exit_code_of(const NewProgram& program) {
  const pid_t child = ::fork();
  if (child == 0) {
    program.become();
    ::_exit(100 + errno);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

NewProgram shell(const std::string& script, const NewProgram::Variables& variables) {
  return NewProgram({"sh", "-c", script}, variables);
}

TEST(NewProgram, HasTheWordsAndTheEnvironmentWithItsVariables) {
  ::setenv("TRIREME_TEST_KEPT", "kept", 1);
  ::setenv("TRIREME_TEST_REPLACED", "old", 1);
  const std::string script =
      "[ \"$TRIREME_TEST_KEPT,$TRIREME_TEST_REPLACED,$TRIREME_TEST_ADDED\" = 'kept,new,a b' ]";
  EXPECT_EQ(exit_code_of(
                shell(script, {{"TRIREME_TEST_REPLACED", "new"}, {"TRIREME_TEST_ADDED", "a b"}})),
            0);
  EXPECT_EQ(exit_code_of(shell(script, {})), 1);
  EXPECT_EQ(exit_code_of(NewProgram({"/no/program"})), 100 + ENOENT);
}

// Another thread allocates all the time, so it often holds the lock of the allocator at a fork().
TEST(NewProgram, StartsBesideAThreadThatAllocates) {
  std::atomic<bool> is_over = false;
  std::thread allocates([&] {
    while (!is_over) {
      std::string text(4096, 'a');
      ASSERT_EQ(text.size(), 4096u);
    }
  });
  const NewProgram program({"true"}, {{"TRIREME_TEST_ADDED", "1"}});
  for (int i = 0; i < 50; ++i) ASSERT_EQ(exit_code_of(program), 0);
  is_over = true;
  allocates.join();
}

}  // namespace
}  // namespace trireme
