#include "agent/leader.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/json_text.h"
#include "comm/fabric.h"
#include "failures/evidence_json.h"

namespace trireme {
namespace {

// A host without real processes; the test says what happens to them.
class PlayedHost : public RankHost {
 public:
  explicit PlayedHost(std::string name) : name_(std::move(name)) {}
  const std::string& name() const override { return name_; }
  Status start(int64_t process, const TcpPlace& place, int) override {
    ranks_[process] = place.rank;
    news_.push_back({.kind = ProcessNews::Kind::Started, .process = process, .pid = 1});
    return Done{};
  }
  void send_order(int64_t process, const EpochOrder& order) override {
    orders_[process] = order;
    report(process, RankReport::Kind::Joined, order.epoch);
  }
  void send_signal(int64_t process, int signal) override {
    if (signal == SIGKILL && ranks_.contains(process)) end(process, SIGKILL);
  }
  void send_no_order(int64_t) override {}
  void share_page() override {}
  void set_writer(bool) override {}
  void drain() override { is_drained_ = true; }
  bool is_drained() const override { return is_drained_; }
  std::optional<std::vector<WatchedProcess>> take_watched() override {
    return std::exchange(watched, std::nullopt);
  }
  void blame(int64_t process, const std::string& why) override { blamed[process] = why; }
  std::optional<std::vector<WatchedProcess>> watched;  // what its agent tells next
  std::map<int64_t, std::string> blamed;               // why a process should be killed
  std::vector<ProcessNews> take_news() override { return std::exchange(news_, {}); }
  std::vector<LivingProcess> living() const override { return {}; }
  void add_descriptors(std::vector<pollfd>&) const override {}

  void end(int64_t process, int status) {
    ranks_.erase(process);
    news_.push_back({.kind = ProcessNews::Kind::Ended, .process = process, .status = status});
  }
  // All its ranks end with the alarm of a check for silent corruption.
  void end_corrupt(uint64_t epoch, const CorruptionAlarm& alarm) {
    FailureEvidence evidence;
    evidence.corruption = alarm;
    const std::string text = json_text(evidence_json(evidence));
    for (const auto& [process, rank] : std::map(ranks_)) {
      report(process, RankReport::Kind::Corrupt, epoch, text);
      end(process, W_EXITCODE(5, 0));
    }
  }
  // Reports that all its ranks have ended their epoch and wait for the next one.
  void wait_all(uint64_t epoch) {
    for (const auto& [process, rank] : ranks_) report(process, RankReport::Kind::Waiting, epoch);
  }
  // The processes of this host, with the ranks that they had when they were started.
  const std::map<int64_t, int>& ranks() const { return ranks_; }
  const EpochOrder& order(int64_t process) const { return orders_.at(process); }

 private:
  void report(int64_t process, RankReport::Kind kind, uint64_t epoch,
              const std::string& text = "") {
    ProcessNews news{.kind = ProcessNews::Kind::Report,
                     .process = process,
                     .report = {.kind = kind, .epoch = epoch}};
    text.copy(news.report.text, sizeof news.report.text - 1);
    news_.push_back(std::move(news));
  }

  std::string name_;
  std::map<int64_t, int> ranks_;
  std::map<int64_t, EpochOrder> orders_;
  std::vector<ProcessNews> news_;
  bool is_drained_ = false;
};

// Two ranks on the hosts a and b, which may have a spare c.
class LeaderOfHosts : public testing::Test {
 protected:
  void begin(bool has_spare) {
    for (PlayedHost* host : {&a_, &b_}) hosts_.add(*host, 1);
    if (has_spare) hosts_.add(c_, 1);
    processes_.ranks = 2;
    processes_.max_restarts = 100;
    processes_.layout.dp = 2;
    processes_.fitting = [](int most_ranks, const JobPage&) -> std::optional<FittingLayout> {
      EpochLayout layout;
      layout.dp = 2;
      if (most_ranks < 2) return FittingLayout{.note = "the layout must stay"};
      return FittingLayout{.layout = layout};
    };
    processes_.log = [this](const std::string& text) { said_ += text + "\n"; };
    leader_.emplace(processes_, hosts_, std::nullopt, "secret", page_);
    ASSERT_TRUE(leader_->begin().ok());
    page_->begun_ns = 1;
    train();
  }
  void train() {
    leader_->turn();
    page_->step += 10;
    page_->furthest_step = page_->step.load();
    page_->trained_epoch = epoch();
    leader_->turn();
  }
  uint64_t epoch() const { return a_.order(a_.ranks().begin()->first).epoch; }
  // The rank of b crashes, and the job resumes.
  void crash_b() {
    ASSERT_FALSE(b_.ranks().empty());
    b_.end(b_.ranks().begin()->first, SIGSEGV);
    settle();
  }
  // The ranks have saved or have lost a peer; the next epoch begins.
  void settle() {
    const uint64_t over = epoch();
    a_.wait_all(over);
    b_.wait_all(over);
    for (int i = 0; i < 4; ++i) leader_->turn();
    train();
  }

  // All ranks end with an alarm, and the job resumes. Returns the failure as it was recorded.
  JobFailure corrupt(const CorruptionAlarm& alarm) {
    const uint64_t over = epoch();
    a_.end_corrupt(over, alarm);
    b_.end_corrupt(over, alarm);
    for (int i = 0; i < 4; ++i) leader_->turn();
    EXPECT_GT(epoch(), over);
    EXPECT_EQ(leader_->failures().size(), 1u);
    return leader_->failures().back();
  }

  PlayedHost a_{"a"}, b_{"b"}, c_{"c"};
  JobHosts hosts_;
  RankProcesses processes_;
  SharedJobPage page_ = std::move(SharedJobPage::make()).value();
  std::optional<Leader> leader_;
  std::string said_;
};

TEST_F(LeaderOfHosts, DrainsAHostThatFailsAgainAndAgainIfAnotherOneHasRoom) {
  begin(true);
  for (int crash = 1; crash <= 2; ++crash) {
    crash_b();
    EXPECT_FALSE(b_.is_drained()) << crash;
  }
  crash_b();
  EXPECT_TRUE(b_.is_drained());
  EXPECT_FALSE(a_.is_drained());
  EXPECT_EQ(page_->wanted_epoch, epoch() + 1) << "its ranks save after their step";
  EXPECT_NE(said_.find("host b is drained: it has failed often lately (score 3.0 of 2.9)"),
            std::string::npos)
      << said_;
  settle();
  EXPECT_TRUE(b_.ranks().empty());
  EXPECT_EQ(c_.ranks().size(), 1u);
  EXPECT_EQ(a_.ranks().size(), 1u);
}

TEST_F(LeaderOfHosts, KeepsAHostThatFailsIfTheOthersHaveNoRoomAndSaysSoOnce) {
  begin(false);
  for (int crash = 1; crash <= 5; ++crash) crash_b();
  EXPECT_FALSE(b_.is_drained());
  EXPECT_EQ(page_->wanted_epoch, 0u);
  const std::string still = "host b is still used";
  EXPECT_NE(said_.find(still), std::string::npos) << said_;
  EXPECT_EQ(said_.find(still), said_.rfind(still));
}

// A core that is always wrong would spoil the next epoch, too. The rank of host a ends first, but
// it was not wrong.
TEST_F(LeaderOfHosts, DrainsAHostThatAloneWasWrongBeforeTheNextEpoch) {
  begin(true);
  const JobFailure failure = corrupt(CorruptionAlarm{.check = CorruptionCheck::ReplayElsewhere,
                                                     .step = 10,
                                                     .ranks = {{1, "name of the machine"}},
                                                     .is_certain = true,
                                                     .clean_step = 4});
  EXPECT_TRUE(b_.is_drained());
  EXPECT_FALSE(a_.is_drained());
  EXPECT_TRUE(b_.ranks().empty());
  EXPECT_EQ(c_.ranks().size(), 1u);
  EXPECT_EQ(c_.order(c_.ranks().begin()->first).clean_step, 4);
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.host, "b");
  EXPECT_EQ(failure.kind, "failed");
  EXPECT_EQ(host_failures_of({failure}).front().host, "b");
  for (const char* said : {"host b is drained: it has computed wrong numbers",
                           "rank 1 on host b computed or held wrong numbers"}) {
    EXPECT_NE(said_.find(said), std::string::npos) << said_;
  }
}

TEST_F(LeaderOfHosts, KeepsAHostThatWasWrongIfTheOthersHaveNoRoom) {
  begin(false);
  corrupt(
      {.check = CorruptionCheck::Products, .step = 10, .ranks = {{1, "b"}}, .is_certain = true});
  EXPECT_FALSE(b_.is_drained());
  EXPECT_EQ(b_.ranks().size(), 1u);
  train();
  EXPECT_NE(said_.find("host b is still used"), std::string::npos) << said_;
}

// With two ranks nothing tells which one was wrong.
TEST_F(LeaderOfHosts, DrainsNobodyIfAnyOfSeveralHostsMayHaveBeenWrong) {
  begin(true);
  const JobFailure failure = corrupt({.check = CorruptionCheck::ReplayElsewhere,
                                      .step = 10,
                                      .ranks = {{1, "b"}, {0, "a"}},
                                      .clean_step = 4});
  EXPECT_EQ(failure.rank, 0) << "the one that has ended first";
  EXPECT_FALSE(a_.is_drained() || b_.is_drained());
  EXPECT_EQ(host_failures_of(leader_->failures()).size(), 2u);
  train();
  b_.end(b_.ranks().begin()->first, W_EXITCODE(5, 0));
  settle();
  EXPECT_FALSE(leader_->failures().back().evidence.corruption) << "that was in the epoch before";
  EXPECT_EQ(a_.order(a_.ranks().begin()->first).clean_step, -1);
}

// Each start from the checkpoint of step 10 fails, so the ranks are told to go back before it until
// an epoch has done a step.
TEST_F(LeaderOfHosts, OrdersTheRanksToGoBackUntilAnEpochHasDoneAStep) {
  begin(false);
  const auto order = [&]() -> const EpochOrder& { return a_.order(a_.ranks().begin()->first); };
  const auto fail = [&](bool has_resumed) {
    if (has_resumed) {
      page_->resumed_epoch = epoch();
      page_->resumed_step = 10;
      page_->older_step = 5;
    }
    const uint64_t over = epoch();
    b_.end(b_.ranks().begin()->first, W_EXITCODE(5, 0));
    a_.wait_all(over);
    for (int i = 0; i < 4; ++i) leader_->turn();
  };
  fail(true);
  EXPECT_EQ(order().clean_step, -1);
  fail(true);
  EXPECT_EQ(order().clean_step, 9);
  EXPECT_EQ(order().must_go_back, 1);
  EXPECT_NE(said_.find("it goes back to a checkpoint of step 9 or earlier, because it has failed "
                       "twice in the same way after step 10"),
            std::string::npos)
      << said_;
  b_.end(b_.ranks().begin()->first, SIGKILL);  // before a step
  const uint64_t over = epoch();
  a_.wait_all(over);
  for (int i = 0; i < 4; ++i) leader_->turn();
  EXPECT_GT(epoch(), over);
  EXPECT_EQ(order().clean_step, 9) << "an epoch that has done no step has not gone back";
  page_->trained_epoch = epoch();
  b_.end(b_.ranks().begin()->first, SIGKILL);
  a_.wait_all(epoch());
  for (int i = 0; i < 4; ++i) leader_->turn();
  EXPECT_EQ(order().clean_step, -1);
  EXPECT_EQ(order().must_go_back, 0);
}

// The host of the former leader, which alone was told of the alarm, is lost.
TEST_F(LeaderOfHosts, ANewLeaderLearnsOfAnAlarmFromTheSummaryOfTheRun) {
  const std::string folder = testing::TempDir() + "/leader-" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  processes_.status_file = folder + "/agent.json";
  begin(true);
  page_->begun_ns = steady_now_ns() - 1'000'000'000;  // times of files are not exact
  const auto take_over = [&](int64_t membership, std::vector<JobFailure> failures) {
    leader_.emplace(processes_, hosts_, std::nullopt, "secret", page_,
                    FormerJob{.membership = membership,
                              .failures = std::move(failures),
                              .what = "a has left the job",
                              .lost_host = "a"});
    ASSERT_TRUE(leader_->begin().ok());
    for (int i = 0; i < 4; ++i) leader_->turn();
  };
  const auto clean_step = [&] { return a_.order(a_.ranks().rbegin()->first).clean_step; };
  take_over(2, {});
  EXPECT_EQ(clean_step(), -1) << "there is no summary";
  std::ofstream(folder + "/summary.json")
      << R"({"end":"corrupt","corruptions":[{"check":"replay_elsewhere","step":9,)"
      << R"("ranks":[{"rank":1,"host":"b"}],"certain":true,"clean_step":4}]})";
  take_over(3, {});
  EXPECT_EQ(clean_step(), 4);
  EXPECT_TRUE(b_.is_drained());
  ASSERT_EQ(leader_->failures().size(), 1u);
  EXPECT_EQ(host_failures_of(leader_->failures()).front().host, "b");
  take_over(4, leader_->failures());
  EXPECT_EQ(leader_->failures().size(), 2u);
  EXPECT_FALSE(leader_->failures().back().evidence.corruption) << "that alarm is known";
  page_->begun_ns = steady_now_ns() + 10'000'000'000;
  take_over(5, {});
  EXPECT_FALSE(leader_->failures().back().evidence.corruption) << "the summary of an earlier job";
  std::filesystem::remove_all(folder);
}

// Reports come from other hosts.
TEST_F(LeaderOfHosts, AnAlarmOfAnotherEpochOrOfARankThatDoesNotExistBlamesNobody) {
  begin(true);
  b_.end_corrupt(epoch() - 1,
                 {.check = CorruptionCheck::State, .ranks = {{1, "b"}}, .is_certain = true});
  settle();
  EXPECT_FALSE(leader_->failures().back().evidence.corruption);
  b_.end_corrupt(epoch(),
                 {.check = CorruptionCheck::State, .ranks = {{7, "x"}}, .is_certain = true});
  settle();
  const JobFailure& failure = leader_->failures().back();
  ASSERT_TRUE(failure.evidence.corruption);
  EXPECT_EQ(failure.rank, 1) << "the one that has ended first";
  EXPECT_EQ(failure.host, "b");
  EXPECT_FALSE(b_.is_drained());
}

TEST_F(LeaderOfHosts, ReportsASlowRankOfTheJobAndNoneThatDoesNotExist) {
  begin(false);
  const auto seen = [&](int rank, int64_t piece, int64_t step_ns) {
    WatchedProcess one;
    RankSample& sample = one.rank.sample;
    sample.rank = rank;
    sample.epoch = epoch();
    sample.steps = 1 + piece * SlowRanks::kPieceSteps;
    sample.computed_ns = sample.steps * step_ns;
    sample.step_ns = 1 + piece * SlowRanks::kPieceNs;
    return std::vector{one};
  };
  for (const int slow : {7, 1}) {
    for (int64_t piece = 10 - slow; piece < 20 - slow; ++piece) {
      a_.watched = seen(0, piece, 1000);
      b_.watched = seen(slow, piece, 2000);
      leader_->turn();
    }
    EXPECT_EQ(said_.find("rank 1 on host b is slow") != std::string::npos, slow == 1) << said_;
    EXPECT_EQ(said_.find("rank 7"), std::string::npos) << said_;
  }
}

// Each host has one rank, so nobody waits for it there.
TEST_F(LeaderOfHosts, BlamesARankThatHoldsUpARankOfAnotherHost) {
  begin(false);
  const int64_t of_a = a_.ranks().begin()->first, of_b = b_.ranks().begin()->first;
  const auto seen = [&](int64_t process, int rank, bool waits) {
    WatchedProcess one{.process = process,
                       .rank = {.silent_ns = 2'000'000'000, .budget_ns = 1'000'000'000}};
    one.rank.most_ns = 65'000'000'000;
    one.rank.sample.rank = rank;
    one.rank.sample.epoch = epoch();
    one.rank.sample.wait_ns = waits ? 1 : 0;
    one.rank.sample.wait_peer = waits ? 1 - rank : -1;
    return std::vector{one};
  };
  for (int report = 1; report <= JobWatch::kReports; ++report) {
    EXPECT_TRUE(b_.blamed.empty()) << "before report " << report;
    a_.watched = seen(of_a, 0, true);
    b_.watched = seen(of_b, 1, false);
    leader_->turn();
  }
  EXPECT_TRUE(a_.blamed.empty());
  ASSERT_TRUE(b_.blamed.contains(of_b));
  EXPECT_NE(b_.blamed[of_b].find("1 rank of the job waited for it"), std::string::npos);
}

}  // namespace
}  // namespace trireme
