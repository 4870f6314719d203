#include "watch/host_evidence.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"

namespace trireme {
namespace {

// The handler names this function, whose frame stays because of what follows the call.
__attribute__((noinline)) void wait_in_a_known_place() {
  std::atomic<bool> goes_on{true};
  while (goes_on) ::usleep(1000);
}

__attribute__((noinline)) void crash_in_a_known_place(volatile int* nowhere) {
  *nowhere = 1;
  ::usleep(1);
}

std::string maps_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/maps");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A process that shows its stack, in the place that a test wants.
class Child {
 public:
  template <typename Body>
  explicit Child(const Body& body)
      : pages_(std::make_shared<SharedRankPages>(SharedRankPages::make().value())) {
    pid_ = ::fork();
    if (pid_ == 0) {
      install_stack_handlers((*pages_)->stacks);
      (*pages_)->progress.begin_epoch(1, 3, monotonic_ns());
      body();
      ::_exit(0);
    }
    while ((*pages_)->progress.phase() != RankPhase::Compile) ::usleep(1000);
    code_ = std::make_shared<const CodeMap>(maps_of(pid_));
    ::usleep(20'000);
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  int pid() const { return pid_; }
  EvidenceRank evidence(bool is_alive, bool is_stopped) const {
    return {3, pid_, is_alive, is_stopped, pages_, code_};
  }

 private:
  std::shared_ptr<SharedRankPages> pages_;
  std::shared_ptr<const CodeMap> code_;
  int pid_ = -1;
};

class HostEvidenceTest : public testing::Test {
 protected:
  ~HostEvidenceTest() override { std::filesystem::remove_all(folder_); }
  nlohmann::json written(const HostEvidence& evidence) {
    EXPECT_TRUE(write_evidence(evidence, R"({"number":1,"rank":3,"cause":"<b>"})", folder_).ok());
    page_ = read_text_file(folder_ + "/index.html").value();
    return parse_json(read_text_file(folder_ + "/evidence.json").value());
  }
  std::string folder_ =
      (std::filesystem::temp_directory_path() / ("trireme_evidence." + std::to_string(::getpid())))
          .string();
  std::string page_;
};

TEST_F(HostEvidenceTest, NamesTheFunctionsInWhichAllThreadsAre) {
  const Child child([] {
    std::thread other(wait_in_a_known_place);
    wait_in_a_known_place();
  });
  const EvidenceRank rank = child.evidence(true, false);
  const auto json = written(collect_evidence({&rank, 1}, 0.2));
  EXPECT_LT(json.at("collected_ms").get<double>(), 300.0);
  int known = 0;
  for (const auto& stack : json.at("ranks").at(0).at("stacks")) {
    known += json_text(stack).find("wait_in_a_known_place") != std::string::npos ? 1 : 0;
    EXPECT_FALSE(stack.at("crash").get<bool>());
  }
  EXPECT_EQ(known, 2);
  EXPECT_EQ(json.at("ranks").at(0).at("rank"), 3);
  EXPECT_NE(page_.find("wait_in_a_known_place"), std::string::npos);
  EXPECT_EQ(page_.find("<b>"), std::string::npos) << "texts are escaped";
  EXPECT_NE(json_text(json.at("ranks").at(0).at("proc")).find("VmRSS"), std::string::npos);
}

TEST_F(HostEvidenceTest, OfAStoppedProcessComesFromProcWithoutWaiting) {
  const Child child([] { wait_in_a_known_place(); });
  ::kill(child.pid(), SIGSTOP);
  ::usleep(20'000);
  const EvidenceRank rank = child.evidence(true, true);
  const HostEvidence evidence = collect_evidence({&rank, 1}, 0.2);
  EXPECT_LT(evidence.took_s, 0.15);
  const auto json = written(evidence);
  EXPECT_TRUE(json.at("ranks").at(0).at("stacks").empty());
  EXPECT_NE(json_text(json.at("ranks").at(0).at("proc")).find("State:"), std::string::npos);
}

// A stopped process that is taken for a running one answers no signal. The time has a limit.
TEST_F(HostEvidenceTest, IsCollectedInTimeIfAProcessDoesNotAnswer) {
  const Child child([] { wait_in_a_known_place(); });
  ::kill(child.pid(), SIGSTOP);
  ::usleep(20'000);
  const EvidenceRank rank = child.evidence(true, false);
  const HostEvidence evidence = collect_evidence({&rank, 1}, 0.2);
  EXPECT_LT(evidence.took_s, 0.3);
  EXPECT_TRUE(evidence.ranks[0].stacks.empty());
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The process ends with its signal all the same.
TEST_F(HostEvidenceTest, OfACrashIsWhereItCrashed) {
  const Child child([] {
    ::usleep(50'000);
    crash_in_a_known_place(nullptr);
  });
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, 0), child.pid());
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
  const EvidenceRank rank = child.evidence(false, false);
  const auto json = written(collect_evidence({&rank, 1}, 0.2));
  const auto& stacks = json.at("ranks").at(0).at("stacks");
  ASSERT_EQ(stacks.size(), 1u);
  EXPECT_TRUE(stacks.at(0).at("crash").get<bool>());
  EXPECT_NE(json_text(stacks.at(0)).find("crash_in_a_known_place"), std::string::npos)
      << json_text(stacks.at(0));
}
#endif

}  // namespace
}  // namespace trireme
