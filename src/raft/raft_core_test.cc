#include "raft/raft_core.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace trireme {
namespace {

LogMembers members_of(std::set<ServerId> ids) {
  LogMembers members;
  for (const ServerId id : ids) members.servers.push_back({id, "host:" + std::to_string(id)});
  return members;
}

// Servers whose disks and network take no time; messages to and from `silent` servers are lost.
struct Servers {
  explicit Servers(int num_servers, int num_members = 0) {
    std::set<ServerId> ids;
    for (ServerId id = 1; id <= num_servers; ++id) ids.insert(id);
    for (const ServerId id : ids) {
      const bool is_first = num_members == 0 || id <= num_members;
      while (num_members > 0 && int(ids.size()) > num_members) ids.erase(std::prev(ids.end()));
      cores.emplace(id, RaftCore({.id = id,
                                  .first_members = is_first ? members_of(ids) : LogMembers(),
                                  .election_s = 1.0,
                                  .heartbeat_s = 0.25,
                                  .entries_kept = 0},
                                 {}, 0.0));
    }
    for (ServerId id = 1; id <= num_servers; ++id) {
      if (cores.contains(id)) continue;
      cores.emplace(id, RaftCore({.id = id, .election_s = 1.0, .heartbeat_s = 0.25}, {}, 0.0));
    }
  }
  RaftCore& at(ServerId id) { return cores.at(id); }
  // Carries messages until there are none.
  void settle() {
    std::vector<RaftMessage> messages;
    do {
      for (const RaftMessage& message : std::exchange(messages, {})) {
        ++num_messages;
        if (silent.contains(message.from) || silent.contains(message.to)) continue;
        at(message.to).receive(message, now_s);
      }
      for (auto& [id, core] : cores) {
        RaftOutput output = core.take_output(now_s);
        while (output.write) {
          core.written(output.write->number);
          RaftOutput next = core.take_output(now_s);
          std::move(next.messages.begin(), next.messages.end(),
                    std::back_inserter(output.messages));
          std::move(next.reads.begin(), next.reads.end(), std::back_inserter(output.reads));
          output.write = std::move(next.write);
        }
        std::move(output.messages.begin(), output.messages.end(), std::back_inserter(messages));
        for (const RaftRead& read : output.reads) reads.push_back(read);
      }
    } while (!messages.empty());
  }
  void run_for(double seconds) {
    for (const double end_s = now_s + seconds; now_s < end_s; now_s += 0.05) {
      for (auto& [id, core] : cores) core.tick(now_s);
      settle();
    }
  }
  ServerId leader() {
    for (auto& [id, core] : cores) {
      if (core.is_leader() && !silent.contains(id)) return id;
    }
    return 0;
  }

  std::map<ServerId, RaftCore> cores;
  std::set<ServerId> silent;
  std::vector<RaftRead> reads;
  double now_s = 0.0;
  int64_t num_messages = 0;
};

TEST(RaftCore, OneServerAloneLeadsAndCommits) {
  Servers servers(1);
  servers.run_for(3);
  ASSERT_EQ(servers.leader(), 1);
  ASSERT_TRUE(servers.at(1).propose("a"));
  ASSERT_TRUE(servers.at(1).read(5));
  servers.settle();
  EXPECT_EQ(servers.at(1).commit(), 2);  // after the first entry of the term
  ASSERT_EQ(servers.reads.size(), 1u);
  EXPECT_GE(servers.reads[0].index, 1);
}

TEST(RaftCore, ServerThatWasCutOffNeitherRaisesItsTermNorDisturbsTheOthers) {
  Servers servers(3);
  servers.run_for(4);
  const ServerId leader = servers.leader();
  ASSERT_NE(leader, 0);
  const int64_t term = servers.at(leader).term();
  servers.silent = {leader % 3 + 1};
  servers.run_for(20);
  EXPECT_EQ(servers.at(leader % 3 + 1).term(), term);
  servers.silent = {};
  servers.run_for(5);
  EXPECT_EQ(servers.leader(), leader);
  EXPECT_EQ(servers.at(leader).term(), term);
}

TEST(RaftCore, RequestForVotesIsIgnoredWhileALeaderIsHeard) {
  Servers servers(3);
  servers.run_for(4);
  const ServerId leader = servers.leader();
  const int64_t term = servers.at(leader).term();
  for (ServerId id = 1; id <= 3; ++id) {
    RaftMessage vote{.kind = RaftMessage::Kind::Vote, .from = 9, .to = id, .term = term + 5};
    vote.index = vote.log_term = 1000;
    servers.at(id).receive(vote, servers.now_s);
    EXPECT_EQ(servers.at(id).term(), term);
  }
}

TEST(RaftCore, LeaderWithoutAMajorityStepsDownAndItsReadsFail) {
  Servers servers(3);
  servers.run_for(4);
  const ServerId leader = servers.leader();
  servers.silent = {leader};
  ASSERT_TRUE(servers.at(leader).read(1));
  servers.run_for(3);
  EXPECT_FALSE(servers.at(leader).is_leader());
  ASSERT_EQ(servers.reads.size(), 1u);
  EXPECT_EQ(servers.reads[0].index, -1);
  EXPECT_NE(servers.leader(), 0);
}

TEST(RaftCore, FollowerWithManyWrongEntriesIsRepairedWithFewMessages) {
  Servers servers(3);
  servers.run_for(4);
  const ServerId former = servers.leader();
  servers.silent = {former};
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(servers.at(former).propose("lost"));
  servers.run_for(8);
  const ServerId leader = servers.leader();
  ASSERT_NE(leader, 0);
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(servers.at(leader).propose("kept"));
  servers.settle();
  servers.silent = {};
  servers.num_messages = 0;
  servers.run_for(0.5);
  EXPECT_EQ(servers.at(former).commit(), servers.at(leader).commit());
  EXPECT_LT(servers.num_messages, 40);
}

TEST(RaftCore, LateServerGetsASnapshotAndARemovedLeaderStepsDown) {
  Servers servers(4, 3);
  servers.run_for(4);
  const ServerId leader = servers.leader();
  ASSERT_NE(leader, 0);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(servers.at(leader).propose("a"));
  servers.settle();
  servers.at(leader).compact(servers.at(leader).applied(), "state");
  ASSERT_TRUE(servers.at(leader).propose_members(members_of({1, 2, 3, 4})).ok());
  EXPECT_FALSE(servers.at(leader).propose_members(members_of({1, 2, 3})).ok());  // one at a time
  servers.run_for(2);
  EXPECT_EQ(servers.at(4).commit(), servers.at(leader).commit());
  EXPECT_EQ(servers.at(4).log().members(), members_of({1, 2, 3, 4}));
  EXPECT_FALSE(servers.at(leader).propose_members(members_of({1, 2})).ok());  // two steps
  std::set<ServerId> others = {1, 2, 3, 4};
  others.erase(leader);
  ASSERT_TRUE(servers.at(leader).propose_members(members_of(others)).ok());
  servers.run_for(8);
  EXPECT_FALSE(servers.at(leader).is_leader());
  EXPECT_NE(servers.leader(), 0);
  EXPECT_EQ(servers.at(servers.leader()).log().members(), members_of(others));
}

TEST(RaftCore, SnapshotHasTheServersOfItsEntry) {
  Servers servers(3);
  servers.run_for(4);
  RaftCore& leader = servers.at(servers.leader());
  const int64_t before = leader.applied();
  servers.silent = {1, 2, 3};
  ASSERT_TRUE(leader.propose_members(members_of({1, 2, 3, 4})).ok());
  leader.compact(before, "state");
  const RaftOutput output = leader.take_output(servers.now_s);
  ASSERT_TRUE(output.write && output.write->snapshot != nullptr);
  EXPECT_EQ(output.write->snapshot->members, encode_members(members_of({1, 2, 3})));
  EXPECT_EQ(leader.log().members(), members_of({1, 2, 3, 4}));
}

TEST(RaftCore, ServerWhoseDiskFailsFallsSilentAndAnotherOneLeads) {
  Servers servers(3);
  servers.run_for(4);
  const ServerId leader = servers.leader();
  servers.at(leader).disk_failed();
  EXPECT_FALSE(servers.at(leader).propose("a"));
  servers.run_for(6);
  EXPECT_TRUE(servers.at(leader).role() == RaftCore::Role::Failed);
  EXPECT_NE(servers.leader(), 0);
  EXPECT_NE(servers.leader(), leader);
}

// Figure 8 of the paper: a majority has the entry of an older term, but a server with a newer last
// entry could still be elected and replace it.
TEST(RaftCore, EntryOfAnOlderTermIsCommittedOnlyTogetherWithOneOfTheNewTerm) {
  LogContents contents;
  contents.vote = {3, 1};
  contents.entries = {{1, 1, EntryKind::Command, "a"}, {2, 2, EntryKind::Command, "b"}};
  const LogMembers members = members_of({1, 2, 3, 4, 5});
  RaftCore core({.id = 1, .first_members = members}, contents, 0.0);
  const auto write = [&] {
    const RaftOutput output = core.take_output(1.0);
    ASSERT_TRUE(output.write);
    core.written(output.write->number);
  };
  const auto grant = [&](RaftMessage::Kind kind, ServerId from, int64_t index) {
    RaftMessage reply{.kind = kind, .from = from, .to = 1, .term = 4, .index = index};
    reply.is_granted = true;
    core.receive(reply, 1.0);
  };
  core.tick(1.0);
  for (const ServerId id : {2, 3}) grant(RaftMessage::Kind::PreVoteReply, id, 0);
  write();
  for (const ServerId id : {2, 3}) grant(RaftMessage::Kind::VoteReply, id, 0);
  ASSERT_TRUE(core.is_leader());
  write();
  for (const ServerId id : {2, 3}) grant(RaftMessage::Kind::AppendReply, id, 2);
  EXPECT_EQ(core.commit(), 0);
  for (const ServerId id : {2, 3}) grant(RaftMessage::Kind::AppendReply, id, 3);
  EXPECT_EQ(core.commit(), 3);
}

TEST(RaftCore, ServerThatHasHeardOfTheLastTermAsksForNoVotes) {
  RaftCore core({.id = 2, .first_members = members_of({1, 2, 3}), .election_s = 1.0}, {}, 0.0);
  RaftMessage append{.from = 1, .to = 2, .term = kMostMessageNumber};
  core.receive(append, 0.1);
  core.tick(10.0);
  RaftOutput output = core.take_output(10.0);
  while (output.write) {
    core.written(output.write->number);
    RaftOutput next = core.take_output(10.0);
    std::move(next.messages.begin(), next.messages.end(), std::back_inserter(output.messages));
    output.write = std::move(next.write);
  }
  ASSERT_EQ(output.messages.size(), 1u) << "the answer to the leader";
  EXPECT_TRUE(decode_message(encode_message(output.messages[0])).ok());
}

TEST(RaftMessages, ComeBackAndDamagedOnesAreRefusedOrHarmless) {
  RaftMessage message{.kind = RaftMessage::Kind::Append, .from = 1, .to = 2, .term = 7};
  message.index = 3;
  message.log_term = 5;
  message.entries = {{4, 5, EntryKind::Command, "abc"},
                     {5, 7, EntryKind::Members, encode_members(members_of({1, 2}))}};
  RaftMessage snapshot{.kind = RaftMessage::Kind::Snapshot, .from = 1, .to = 2, .term = 7};
  snapshot.index = 9;
  snapshot.snapshot = std::make_shared<const LogSnapshot>(
      LogSnapshot{.index = 9, .term = 7, .members = "", .state = "state"});
  for (const RaftMessage& sent : {message, snapshot}) {
    const std::string bytes = encode_message(sent);
    const Result<RaftMessage> received = decode_message(bytes);
    ASSERT_TRUE(received.ok()) << received.error().message;
    EXPECT_EQ(encode_message(*received), bytes);
    for (size_t i = 0; i < bytes.size(); ++i) {
      EXPECT_FALSE(decode_message(bytes.substr(0, i)).ok()) << i;
      std::string bad = bytes;
      bad[i] = char(bad[i] ^ (1 << (i % 8)));
      const Result<RaftMessage> other = decode_message(bad);
      if (other) {
        EXPECT_NE(encode_message(*other), bytes) << i;
      }
    }
  }
  snapshot.term = 6;
  EXPECT_FALSE(decode_message(encode_message(snapshot)).ok()) << "its snapshot is of term 7";
}

}  // namespace
}  // namespace trireme
