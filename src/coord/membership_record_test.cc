#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "coord/membership_agent.h"

namespace trireme {
namespace {

MembershipRecord some_record() {
  MembershipRecord record{
      .lease_s = 6.5,
      .claimed_epoch = 9,
      .claimed_by = "b 77",
      .formed = {.epoch = 8, .leader = "a", .layout = "dp = \"3\"\n", .first_step = 120},
      .base = {.epoch = 7, .step = 118},
      .holders = {"a", "b"},
      .left_out = {"c"}};
  for (const char* name : {"a", "b", "spare"}) {
    record.formed.members.push_back({.agent = name,
                                     .address = "10.0.0.1:4000",
                                     .lease = INT64_MAX,
                                     .slots = 8,
                                     .first_rank = 8 * int(record.formed.members.size()),
                                     .num_ranks = name[0] == 's' ? 0 : 8});
  }
  return record;
}

TEST(MembershipRecord, ComesBackFromItsText) {
  EXPECT_EQ(parse_record(record_text({.lease_s = 1.0})).value(), MembershipRecord{.lease_s = 1.0});
  EXPECT_EQ(parse_record(record_text(some_record())).value(), some_record());
  const AgentCard card{.address = "[::1]:4000", .slots = 4};
  EXPECT_EQ(parse_card(card_text(card)).value(), card);
}

TEST(MembershipRecord, IsRefusedIfItWasCut) {
  const std::string text = record_text(some_record());
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(parse_record(text.substr(0, length)).ok()) << length;
  }
}

// Each pair is a part of the text and what is written there instead. The error names the place.
TEST(MembershipRecord, IsRefusedWithThePlaceThatIsWrong) {
  struct Damage {
    std::string part, other, place;
  };
  const std::vector<Damage> damages = {
      {"\"lease_s\":6.5", "\"lease_s\":0", "record.lease_s"},
      {"\"lease_s\":6.5", "\"lease\":6.5", "record.lease_s"},
      {"\"claimed_epoch\":9", "\"claimed_epoch\":-1", "record.claimed_epoch"},
      {"\"claimed_epoch\":9", "\"claimed_epoch\":7", "record.formed.epoch"},
      {"\"claimed_by\":\"b 77\"", "\"claimed_by\":77", "record.claimed_by"},
      {"\"first_step\":120", "\"first_step\":1e2", "record.formed.first_step"},
      {"\"first_step\":120", "\"first_step\":18446744073709551615", "record.formed.first_step"},
      {"\"first_rank\":8", "\"first_rank\":4294967296", "record.formed.members[1].first_rank"},
      {"\"base\":{", "\"base\":7,\"x\":{", "record.base"},
      {"\"holders\":[\"a\"", "\"holders\":[1", "record.holders"},
  };
  const std::string text = record_text(some_record());
  for (const Damage& damage : damages) {
    const size_t at = text.find(damage.part);
    ASSERT_NE(at, std::string::npos) << damage.part;
    std::string damaged = text;
    damaged.replace(at, damage.part.size(), damage.other);
    const Result<MembershipRecord> record = parse_record(damaged);
    ASSERT_FALSE(record.ok()) << damaged;
    EXPECT_TRUE(record.error().message.starts_with(damage.place + ":")) << record.error().message;
  }
}

// Feeds the calls of one agent to an answer function until it asks for nothing more.
template <typename Answer>
std::vector<MembershipEffect> settle(MembershipAgent& agent, double now_s, const Answer& answer) {
  std::vector<MembershipEffect> others;
  std::vector<MembershipEffect> todo = agent.on_tick(now_s);
  while (!todo.empty()) {
    const MembershipEffect effect = todo.front();
    todo.erase(todo.begin());
    MembershipEffects more;
    now_s += 1e-6;
    if (const auto* asked = std::get_if<CallCoord>(&effect)) {
      more = agent.on_coord_result(now_s, asked->id, answer(asked->call));
    } else {
      others.push_back(effect);
    }
    todo.insert(todo.end(), more.begin(), more.end());
  }
  return others;
}

// An agent whose lease has another length than those of the job could start ranks while others
// still run, so it stays outside and says why.
TEST(MembershipAgent, WithAnotherLengthOfTheLeaseStaysOutside) {
  MembershipAgent agent({.agent = "c", .lease_s = 3.0}, {});
  const CoordEntry record{
      .key = std::string(kRecordKey), .value = record_text(some_record()), .version = 5};
  int num_writes = 0;
  const auto effects = settle(agent, 1.0, [&](const CoordCall& call) -> Result<CoordReply> {
    if (call.kind == CoordCall::Kind::CompareAndSwap) ++num_writes;
    return CoordReply{.entries = {record}, .lease = 3};
  });
  EXPECT_EQ(num_writes, 0);
  ASSERT_EQ(effects.size(), 1u);
  const std::string& sentence = std::get<Tell>(effects[0]).sentence;
  EXPECT_NE(sentence.find("its lease has 3 s, those of the job have 6.5 s"), std::string::npos)
      << sentence;
}

TEST(MembershipAgent, SaysWhatItCannotReadInTheCoord) {
  MembershipAgent agent({.agent = "c"}, {});
  const CoordEntry record{.key = std::string(kRecordKey), .value = "{}", .version = 5};
  const CoordEntry other{.key = "agents/d", .value = "[]", .version = 6};
  const auto effects = settle(agent, 1.0, [&](const CoordCall& call) -> Result<CoordReply> {
    if (call.kind == CoordCall::Kind::CompareAndSwap) return Error{ErrorKind::Runtime, "away"};
    return CoordReply{.entries = {other, record}, .lease = 3};
  });
  ASSERT_GE(effects.size(), 2u);
  EXPECT_NE(std::get<Tell>(effects[0]).sentence.find("agents/d"), std::string::npos);
  EXPECT_NE(std::get<Tell>(effects[1]).sentence.find("record.lease_s"), std::string::npos);
}

}  // namespace
}  // namespace trireme
