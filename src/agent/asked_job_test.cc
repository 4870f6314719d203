#include "agent/asked_job.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "agent/job_status.h"
#include "agent/status_askers.h"
#include "base/sealed_json.h"

namespace trireme {
namespace {

// An agent that only answers questions, until it is destroyed or its job is over.
class AnsweringAgent {
 public:
  AnsweringAgent(std::string secret, std::function<StatusAnswer()> answer)
      : reception_(listen_at("127.0.0.1:0").value(), std::move(secret),
                   [this](const std::string& text) { log_ += text + "\n"; }),
        answer_(std::move(answer)),
        thread_([this] { run(); }) {}
  ~AnsweringAgent() { end(); }

  std::string address() const { return reception_.address(); }
  void end() {
    is_over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  std::string log() {
    end();
    return log_;
  }

 private:
  void run() {
    StatusAskers askers;
    while (!is_over_) {
      auto arrived = reception_.receive({}, judge_of_agents, 1);
      for (Reception::Visitor& visitor : arrived.value()) {
        if (!askers.take(visitor)) ADD_FAILURE() << "a visitor that does not ask";
      }
      if (askers.receive()) askers.answer(answer_());
    }
    askers.finish({StatusAnswer::Kind::Record, text_of(JobStatus{.state = "ended"})},
                  Deadline::after(0.2));
  }

  std::string log_;
  Reception reception_;
  std::function<StatusAnswer()> answer_;
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

StatusAnswer record_of(int64_t step) {
  return {StatusAnswer::Kind::Record, text_of(JobStatus{.state = "running", .step = step})};
}

std::string problem_of(const std::string& address, const std::string& secret) {
  const Result<std::string> status = AskedJob(address, secret).status(0.2);
  return status.ok() ? "" : status.error().message;
}

TEST(AskedJob, AnAgentThatDoesNotLeadNamesTheOneThatDoes) {
  std::atomic<int64_t> step{1};
  AnsweringAgent leader("right", [&] { return record_of(step); });
  AnsweringAgent other("right", [&] {
    return StatusAnswer{StatusAnswer::Kind::Elsewhere, leader.address()};
  });
  AskedJob asked(other.address(), "right");
  EXPECT_EQ(asked.status(5).value(), record_of(1).text);
  step = 2;
  EXPECT_EQ(asked.status(5).value(), record_of(2).text);
  leader.end();  // it has told the last status unasked
  EXPECT_EQ(asked.status(5).value(), text_of(JobStatus{.state = "ended"}));
}

TEST(AskedJob, AfterTheLossOfTheLeaderTheNextOneIsAsked) {
  const std::string gone = own_address(listen_at("127.0.0.1:0").value());
  AnsweringAgent leader("right", [] { return record_of(3); });
  std::atomic<int> questions{0};
  AnsweringAgent other("right", [&] {
    return StatusAnswer{StatusAnswer::Kind::Elsewhere, ++questions < 3 ? gone : leader.address()};
  });
  EXPECT_EQ(AskedJob(other.address(), "right").status(5).value(), record_of(3).text);
  questions = -1'000'000;
  EXPECT_NE(problem_of(other.address(), "right").find(gone + ", which leads"), std::string::npos);
}

// It is longer than the body of a message may be.
TEST(AskedJob, TheStatusOfManyRanksComesInPieces) {
  JobStatus status{.state = "running"};
  status.ranks.assign(4096, {.host = "a host with a long name", .pid = 1, .state = "training"});
  const std::string text = text_of(status);
  ASSERT_GT(text.size(), kMostAgentBody);
  AnsweringAgent leader("right", [&] { return StatusAnswer{StatusAnswer::Kind::Record, text}; });
  AskedJob asked(leader.address(), "right");
  EXPECT_EQ(asked.status(5).value(), text);
}

TEST(AskedJob, AWrongSecretIsRefusedAndLogged) {
  AnsweringAgent leader("right", [] { return record_of(1); });
  const std::string why = problem_of(leader.address(), "wrong");
  EXPECT_NE(why.find("the secrets differ"), std::string::npos) << why;
  EXPECT_NE(why.find(leader.address()), std::string::npos) << why;
  EXPECT_NE(leader.log().find("it wanted to ask for the status of the job: the secrets differ"),
            std::string::npos);
}

TEST(AskedJob, WhoCannotAnswerIsNamedWithWhatToChange) {
  AnsweringAgent waiting("right", [] { return StatusAnswer{StatusAnswer::Kind::NotBegun}; });
  EXPECT_NE(problem_of(waiting.address(), "right").find("has not begun to train"),
            std::string::npos);
  AnsweringAgent alone("right", [] { return StatusAnswer{StatusAnswer::Kind::NoLeader}; });
  EXPECT_NE(problem_of(alone.address(), "right").find("no agent of the job"), std::string::npos);
  AnsweringAgent damaged_one("right", [] {
    StatusAnswer answer = record_of(1);
    answer.text[5] = 'X';
    return answer;
  });
  EXPECT_NE(problem_of(damaged_one.address(), "right").find("is damaged"), std::string::npos);
  // Somebody listens there who is no agent.
  const Socket listener = listen_at("127.0.0.1:0").value();
  std::thread stranger([&] {
    Socket visitor;
    while (!visitor.is_open()) visitor = accept_from(listener).value();
    const std::string text(200, 'x');
    (void)send_all(visitor, std::as_bytes(std::span(text)), Deadline::after(1));
  });
  const std::string why = problem_of(own_address(listener), "right");
  EXPECT_NE(why.find("does not greet as an agent"), std::string::npos) << why;
  EXPECT_NE(why.find("give HOST:PORT"), std::string::npos) << why;
  stranger.join();
}

TEST(AskedJob, PiecesThatDoNotFitTogetherAreRefused) {
  const StatusAnswer answer = record_of(1);
  const auto bytes = std::as_bytes(std::span(answer.text));
  const auto kind = StatusAnswer::Kind::Record;
  const auto rest = int64_t(bytes.size()) - 9;
  const auto is_whole = [&](const std::vector<StatusPiece>& pieces) {
    StatusPieces all;
    for (const StatusPiece& piece : pieces) {
      const Result<bool> added = all.add(piece);
      if (!added.ok()) return false;
      if (*added) return true;
    }
    return false;
  };
  EXPECT_TRUE(is_whole({{kind, rest, bytes.first(9)}, {kind, 0, bytes.subspan(9)}}));
  EXPECT_FALSE(is_whole({{kind, rest + 1, bytes.first(9)}, {kind, 0, bytes.subspan(9)}}));
  EXPECT_FALSE(is_whole({{kind, rest, bytes.first(9)}, {kind, rest, {}}}));
  EXPECT_FALSE(is_whole(
      {{kind, rest, bytes.first(9)}, {StatusAnswer::Kind::Elsewhere, 0, bytes.subspan(9)}}));
  EXPECT_FALSE(is_whole({{kind, kMostStatusBytes, bytes}}));
  EXPECT_FALSE(is_whole({{kind, -1, bytes}}));
  EXPECT_FALSE(is_whole({{kind, 0, {}}}));
  EXPECT_FALSE(is_whole({{StatusAnswer::Kind::Elsewhere, 0, {}}}));
  EXPECT_FALSE(is_whole({{StatusAnswer::Kind::NotBegun, 0, bytes}}));
  EXPECT_FALSE(is_whole({{static_cast<StatusAnswer::Kind>(4), 0, bytes}}));
}

}  // namespace
}  // namespace trireme
