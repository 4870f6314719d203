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

TEST(AgentWire, TextsComeBack) {
  const AgentWelcome welcome{{"trireme", "train", "a \"b\"\n"}, "/some/where"};
  const auto same = check_welcome(to_json(welcome));
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->command, welcome.command);
  EXPECT_EQ(same->folder, welcome.folder);
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
    EXPECT_FALSE(check_welcome(text).ok()) << text;
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
