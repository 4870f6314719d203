#include "agent/agent_wire.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

namespace trireme {
namespace {

template <typename T>
std::span<const std::byte> bytes_of_struct(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

JobTerms some_terms() {
  return {.job = "a",
          .coord = "file:/some/where/coord",
          .coord_keys = "/some/where",
          .lease_s = 3.0,
          .command = {"trireme", "train", "a \"b\"\n"},
          .folder = "/some",
          .run_dir = "where",
          .ranks = 4,
          .layouts = "any",
          .max_restarts = 7,
          .num_agents = 3,
          .hosts = {{"h1", 2}, {"h2", 2}}};
}

TEST(AgentWire, RefusesImpossibleTerms) {
  const std::vector<std::function<void(JobTerms&)>> changes = {
      [](JobTerms& terms) { terms.ranks = 0; },
      [](JobTerms& terms) { terms.max_restarts = -1; },
      [](JobTerms& terms) { terms.lease_s = 0.0; },
      [](JobTerms& terms) { terms.lease_s = 1e9; },
      [](JobTerms& terms) { terms.start_timeout_s = 0.0; },
      [](JobTerms& terms) { terms.num_agents = 0; },
      [](JobTerms& terms) { terms.usual_slots = -1; },
      [](JobTerms& terms) { terms.hosts.back().slots = -1; },
      [](JobTerms& terms) { terms.command.clear(); }};
  for (size_t i = 0; i < changes.size(); ++i) {
    JobTerms changed = some_terms();
    changes[i](changed);
    EXPECT_FALSE(check_terms(to_json(changed)).ok()) << i;
  }
}

TEST(AgentWire, RefusesImpossibleProcessesAndWordsAboutTheMembership) {
  LivingProcess process{.process = 1, .rank = 3, .size = 4};
  ASSERT_TRUE(check_living(bytes_of_struct(process)).ok());
  process.rank = 4;
  EXPECT_FALSE(check_living(bytes_of_struct(process)).ok());
  process = {.process = 1, .state = static_cast<LivingProcess::State>(3)};
  EXPECT_FALSE(check_living(bytes_of_struct(process)).ok());

  const MembershipMessage message{
      .kind = MembershipMessage::Kind::Prepared, .epoch = 4, .step = 7, .lease = 9};
  MembershipWords words = words_of(message);
  const auto same = check_membership(bytes_of_struct(words));
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->kind, message.kind);
  EXPECT_EQ(same->epoch, 4);
  EXPECT_EQ(same->step, 7);
  EXPECT_EQ(same->lease, 9);
  words.kind = static_cast<MembershipMessage::Kind>(7);
  EXPECT_FALSE(check_membership(bytes_of_struct(words)).ok());
  words = words_of(message);
  words.epoch = -1;
  EXPECT_FALSE(check_membership(bytes_of_struct(words)).ok());
}

TEST(AgentWire, TextsComeBack) {
  const auto same = check_terms(to_json(some_terms()));
  ASSERT_TRUE(same.ok()) << same.error().message;
  EXPECT_EQ(to_json(*same), to_json(some_terms()));
  EXPECT_EQ(same->command, some_terms().command);
  EXPECT_EQ(same->hosts.back().slots, 2);
  const JobFailure failure{
      .rank = 3,
      .kind = "killed",
      .cause = "a \"b\"\n",
      .time_s = 1.5,
      .evidence = {.kind = "killed",
                   .signal = 9,
                   .kernel_lines = {"oom"},
                   .oom_kills = 1,
                   .corruption =
                       CorruptionAlarm{
                           .check = CorruptionCheck::State, .step = 4, .is_certain = true},
                   .first_sample = 28,
                   .num_samples = 4},
      .is_left_out = true,
      .resumed_step = 20,
      .older_step = 10,
      .goes_back_to = 19,
      .why_back = "it has failed twice",
      .found = {.failure_class = FailureClass::HostMemory, .confidence = 0.97, .rule = "r"}};
  EXPECT_EQ(to_json(check_failure(to_json(failure)).value()), to_json(failure));
  const RanksEnd end{.exit_code = 5, .first_failed = 1, .why = "was killed", .told_failures = 2};
  EXPECT_EQ(to_json(check_end(to_json(end)).value()), to_json(end));
  EXPECT_FALSE(check_end(to_json(end))->is_told_here);
  StartPlace start{.ranks_on_host = 2};
  start.place.rendezvous = "10.0.0.1:4000";
  start.place.epoch = 7;
  start.place.rank = 3;
  start.place.size = 4;
  const auto place = check_start(to_json(start));
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(to_json(*place), to_json(start));
  EXPECT_TRUE(place->place.secret.empty());
}

TEST(AgentWire, RefusesImpossiblePlaces) {
  for (const char* text :
       {"", "{}", "[1]", R"({"command":[],"folder":"/"})", R"({"command":"a","folder":"/"})",
        R"({"rendezvous":"a:1","epoch":1,"rank":2,"size":2,"ranks_on_host":1})",
        R"({"rendezvous":"a:1","epoch":0,"rank":0,"size":2,"ranks_on_host":1})",
        R"({"rendezvous":"a:1","epoch":1,"rank":-1,"size":2,"ranks_on_host":1})",
        R"({"rendezvous":"a:1","epoch":1,"rank":0,"size":99999,"ranks_on_host":1})",
        R"({"rendezvous":"a:1","epoch":1,"rank":0,"size":2,"ranks_on_host":3})"}) {
    EXPECT_FALSE(check_terms(text).ok()) << text;
    EXPECT_FALSE(check_failure(text).ok()) << text;
    EXPECT_FALSE(check_end(text).ok()) << text;
    EXPECT_FALSE(check_start(text).ok()) << text;
  }
}

TEST(AgentWire, RefusesImpossibleOrders) {
  EpochOrder good;
  good.epoch = 2;
  good.size = 4;
  good.rank = 3;
  good.layout = {.dp = 2, .pp = 2, .schedule = ScheduleKind::ZbH1, .global_sequences = 8};
  good.ranks_on_host = 2;
  ASSERT_TRUE(check_order(bytes_of_struct(good)).ok());
  const std::vector<std::function<void(EpochOrder&)>> changes = {
      [](EpochOrder& order) { order.epoch = 0; },
      [](EpochOrder& order) { order.num_left_out = -1; },
      [](EpochOrder& order) { order.num_left_out = kMostLeftOutBatches + 1; },
      [](EpochOrder& order) { order.clean_step = -2; },
      [](EpochOrder& order) { order.must_go_back = 1; },
      [](EpochOrder& order) { order.rank = 4; },
      [](EpochOrder& order) { order.rank = -1; },
      [](EpochOrder& order) { order.size = kLargestTcpWorld + 1; },
      [](EpochOrder& order) { order.layout.dp = 0; },
      [](EpochOrder& order) { order.layout.dp = 1; },
      [](EpochOrder& order) { order.layout.dp = 5; },
      [](EpochOrder& order) { order.layout.tp = 1 << 30; },
      [](EpochOrder& order) { order.layout.pp = -2; },
      [](EpochOrder& order) { order.layout.dp = order.layout.pp = -2; },
      [](EpochOrder& order) { order.layout.zero = 4; },
      [](EpochOrder& order) { order.layout.hsdp_shard = 3; },
      [](EpochOrder& order) { order.layout.chunks = -1; },
      [](EpochOrder& order) { order.layout.schedule = static_cast<ScheduleKind>(200); },
      [](EpochOrder& order) { order.layout.recompute = static_cast<Recompute>(4); },
      [](EpochOrder& order) { order.layout.sequence = 2; },
      [](EpochOrder& order) { order.layout.global_sequences = 0; },
      [](EpochOrder& order) { order.ranks_on_host = 5; },
      [](EpochOrder& order) { order.num_failures = -1; },
      [](EpochOrder& order) { order.first_failure_number = -1; },
      [](EpochOrder& order) { order.rendezvous.fill('x'); },
      [](EpochOrder& order) { std::memset(order.failures, 'x', sizeof order.failures); }};
  for (size_t i = 0; i < changes.size(); ++i) {
    EpochOrder changed = good;
    changes[i](changed);
    EXPECT_FALSE(check_order(bytes_of_struct(changed)).ok()) << i;
  }
  EXPECT_FALSE(check_order(bytes_of_struct(good).first(100)).ok());
}

TEST(AgentWire, RefusesMessagesReportsAndPagesThatCannotBe) {
  AgentMessage message{.kind = AgentMessageKind::Order, .body_bytes = sizeof(EpochOrder)};
  ASSERT_TRUE(check_agent_message(bytes_of_struct(message)).ok());
  message.body_bytes = 7;
  EXPECT_FALSE(check_agent_message(bytes_of_struct(message)).ok());
  message = {.kind = AgentMessageKind::Ended, .body_bytes = kMostAgentBody};
  ASSERT_TRUE(check_agent_message(bytes_of_struct(message)).ok());
  ++message.body_bytes;
  EXPECT_FALSE(check_agent_message(bytes_of_struct(message)).ok());
  for (const AgentMessageKind kind : {AgentMessageKind::Watched, AgentMessageKind::Blame}) {
    message = {.kind = kind, .body_bytes = kMostAgentBody};
    EXPECT_TRUE(check_agent_message(bytes_of_struct(message)).ok());
    ++message.body_bytes;
    EXPECT_FALSE(check_agent_message(bytes_of_struct(message)).ok());
  }
  message = {.kind = static_cast<AgentMessageKind>(uint32_t(kLastAgentMessageKind) + 1)};
  EXPECT_FALSE(check_agent_message(bytes_of_struct(message)).ok());
  message = {.magic = 1};
  EXPECT_FALSE(check_agent_message(bytes_of_struct(message)).ok());

  RankReport report{.kind = RankReport::Kind::Failed};
  ASSERT_TRUE(check_report(bytes_of_struct(report)).ok());
  std::memset(report.text, 'x', sizeof report.text);
  EXPECT_FALSE(check_report(bytes_of_struct(report)).ok());
  report = {.kind = static_cast<RankReport::Kind>(9)};
  EXPECT_FALSE(check_report(bytes_of_struct(report)).ok());

  PageValues values{.measured_bytes = 512};
  ASSERT_TRUE(check_page(bytes_of_struct(values)).ok());
  values.measured_bytes = 513;
  EXPECT_FALSE(check_page(bytes_of_struct(values)).ok());
}

TEST(AgentWire, WhatWasSeenOfRanksComesBackAndImpossibleValuesAreRefused) {
  WatchedProcess one{.process = 7,
                     .rank = {.silent_ns = 5, .budget_ns = 6, .most_ns = 7, .is_stopped = true}};
  one.rank.sample.rank = 3;
  one.rank.sample.wait_peer = 2;
  one.rank.sample.issued[5] = 9;
  const std::vector<WatchedWords> words = words_of(std::vector(3, one));
  const auto same = check_watched(std::as_bytes(std::span(words)));
  ASSERT_TRUE(same.ok());
  ASSERT_EQ(same->size(), 3u);
  EXPECT_EQ(same->back().process, 7);
  EXPECT_EQ(same->back().rank.budget_ns, 6);
  EXPECT_TRUE(same->back().rank.is_stopped);
  EXPECT_EQ(std::memcmp(&same->back().rank.sample, &one.rank.sample, sizeof(RankSample)), 0);
  EXPECT_TRUE(check_watched({})->empty());
  EXPECT_FALSE(check_watched(std::as_bytes(std::span(words)).first(100)).ok());
  EXPECT_EQ(words_of(std::vector(kMostWatched + 5, one)).size(), kMostWatched);

  const std::vector<std::function<void(WatchedWords&)>> changes = {
      [](WatchedWords& seen) { seen.sample.rank = -2; },
      [](WatchedWords& seen) { seen.sample.rank = kLargestTcpWorld; },
      [](WatchedWords& seen) { seen.sample.stage = -1; },
      [](WatchedWords& seen) { seen.sample.phase = static_cast<RankPhase>(kNumRankPhases); },
      [](WatchedWords& seen) { seen.sample.steps = INT64_MAX; },
      [](WatchedWords& seen) { seen.sample.computed_ns = -1; },
      [](WatchedWords& seen) { seen.sample.step_ns = -1; },
      [](WatchedWords& seen) { seen.sample.wait_group = -1; },
      [](WatchedWords& seen) { seen.silent_ns = -1; },
      [](WatchedWords& seen) { seen.budget_ns = INT64_MAX; },
      [](WatchedWords& seen) { seen.most_ns = -1; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    WatchedWords changed = words.front();
    changes[i](changed);
    EXPECT_FALSE(check_watched(bytes_of_struct(changed)).ok()) << i;
  }
}

// A page that went to a host with another clock and back is the one that was sent.
TEST(AgentWire, APageThatTravelsComesBack) {
  const auto first = SharedJobPage::make(), second = SharedJobPage::make();
  ASSERT_TRUE(first.ok() && second.ok());
  JobPage& page = **first;
  page.step = 5;
  page.step_ns = 1000;
  page.furthest_ns = 900;
  page.lost_ns = 77;
  page.trained_epoch = 3;
  page.measured_bytes = 2;
  page.measured[1] = std::byte{9};
  constexpr int64_t kShiftNs = 123456;
  store(values_of(page, 0), kShiftNs, **second);
  EXPECT_EQ((*second)->step, 5);
  EXPECT_EQ((*second)->step_ns, 1000 + kShiftNs);
  EXPECT_EQ((*second)->lost_ns, 77);       // a duration
  EXPECT_EQ((*second)->first_step_ns, 0);  // not yet
  EXPECT_EQ(values_of(**second, -kShiftNs), values_of(page, 0));
}

}  // namespace
}  // namespace trireme
