#include "observe/recorded_failures.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

// Lines as runs of `trireme launch` have written them.
constexpr const char* kKilled =
    R"j({"event":"failure","step":16,"time":1795572963.884,"cause":"rank 1 has died: it was )j"
    R"j(killed by signal 9 (Killed)","class":"killed","rank":1,"host":"vm","epoch":1,)j"
    R"j("detected_ms":22.090,"evidence":"was killed by signal 9 (Killed)","number":1,)j"
    R"j("kind":"killed","signal":9,"phase":"step","oom_kills":1})j";
constexpr const char* kStopped =
    R"j({"event":"failure","step":15,"time":1795572968.269,"cause":"rank 0: rank 0 waited 3.000 )j"
    R"j(s, its deadline; who waits for whom:\u000a  rank 0 waits for rank 1 in all_gather, )j"
    R"j(call 23\u000a  rank 1 does not answer: its calling thread has been in one place for )j"
    R"j(3.010 s","class":"failed","rank":0,"host":"vm","epoch":2,"detected_ms":3096.140,)j"
    R"j("evidence":"ended with exit code 5","number":2,"kind":"failed","exit_code":5})j";

TEST(RecordedFailures, HaveTheEvidenceOfTheirLines) {
  // The last line was cut by a crash.
  const std::string text = fmt::format(
      "{{\"event\":\"train\",\"step\":1}}\n{}\n{}\n{{\"event\":\"tra", kKilled, kStopped);
  const auto failures = failures_of_metrics(text, "m").value();
  ASSERT_EQ(failures.size(), 2u);
  EXPECT_EQ(failures[0].evidence.signal, 9);
  EXPECT_FALSE(failures[0].evidence.exit_code.has_value());
  EXPECT_EQ(failures[0].evidence.kind, "killed");
  EXPECT_EQ(failures[0].evidence.phase, "step");
  EXPECT_EQ(failures[0].evidence.oom_kills, 1);
  EXPECT_EQ(failures[1].evidence.exit_code, 5);
  EXPECT_EQ(failures[1].evidence.signal, 0);
  EXPECT_EQ(failures[1].rank, 0);
  EXPECT_EQ(failures[1].suspect, 1);
  EXPECT_EQ(failures[1].epoch, 2);
}

// A failure that ended the run stands in agent.json alone.
TEST(RecordedFailures, OfTheAgentAreAddedOnce) {
  auto failures = failures_of_metrics(std::string(kKilled) + "\n", "m").value();
  const std::string agent = fmt::format("{{\"failures\":[{},{}]}}", kKilled, kStopped);
  ASSERT_TRUE(add_failures_of_agent(agent, "a", failures).ok());
  ASSERT_EQ(failures.size(), 2u);
  EXPECT_EQ(failures[1].number, 2);
  EXPECT_FALSE(add_failures_of_agent("{}", "a", failures).ok());
  EXPECT_FALSE(add_failures_of_agent(R"({"failures":[{"rank":"x"}]})", "a", failures).ok());
}

// Evidence of a failure before the first step is all there is, and else belongs to a line.
TEST(RecordedFailures, OfEvidenceAreAddedOnce) {
  std::vector<RecordedFailure> failures;
  const std::string evidence = fmt::format("{{\"failure\":{},\"ranks\":[]}}", kKilled);
  ASSERT_TRUE(add_failure_of_evidence(evidence, "run/failures/001/evidence.json", failures).ok());
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].folder, "run/failures/001");
  failures = failures_of_metrics(std::string(kKilled) + "\n", "m").value();
  ASSERT_TRUE(add_failure_of_evidence(evidence, "run/failures/001/evidence.json", failures).ok());
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].folder, "run/failures/001");
  EXPECT_FALSE(add_failure_of_evidence("{}", "e", failures).ok());
  EXPECT_FALSE(add_failure_of_evidence(R"({"failure":{"signal":"x"}})", "e", failures).ok());
}

TEST(RecordedFailures, DamagedLinesAreNamed) {
  const std::string good = "{\"event\":\"train\"}\n";
  for (const char* bad :
       {"{\"event\":\"failure\",\n", "garbage\n", "{\"event\":\"failure\"x}\n",
        "{\"event\":\"failure\",\"rank\":\"one\"}\n", "{\"event\":\"failure\",\"kernel\":[1]}\n",
        "{\"event\":\"failure\",\"rank\":1e30}\n", "{\"event\":\"failure\",\"rank\":4294967296}\n",
        "{\"event\":\"failure\",\"first_sample\":9223372036854775807,\"samples\":2}\n"}) {
    const auto failures = failures_of_metrics(good + bad + good, "run/metrics.jsonl");
    ASSERT_FALSE(failures.ok()) << bad;
    EXPECT_EQ(failures.error().kind, ErrorKind::Damaged);
    EXPECT_EQ(failures.error().message.find("run/metrics.jsonl:2:"), 0u)
        << failures.error().message;
  }
}

}  // namespace
}  // namespace trireme
