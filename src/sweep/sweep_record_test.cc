#include "sweep/sweep_record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/sealed_json.h"
#include "sweep/repeat_command.h"
#include "sweep/sweep_page.h"

namespace trireme {
namespace {

SweepRecord record_of(const std::vector<std::string>& over) {
  SweepRecord record;
  record.spec.files = {"my run.toml"};
  record.spec.overrides = {"run.steps=200"};
  record.spec.seed = UINT64_MAX;
  record.spec.grace = 0.3;
  record.spec.total_steps = 200;
  record.spec.config = "{\"optim\":{\"lr\":0.1}}";
  for (const std::string& text : over) record.spec.keys.push_back(parse_swept_key(text).value());
  auto points = grid_points(record.spec.keys).value();
  for (SweepPoint& point : points) {
    record.trials.push_back({.point = std::move(point)});
  }
  return record;
}

SweepRecord ended_record() {
  SweepRecord record = record_of({"optim.lr=1e-3..1e-1:log3", "optim.name=adamw,sgd"});
  const TrialState states[] = {TrialState::Finished, TrialState::Finished, TrialState::Stopped,
                               TrialState::Diverged, TrialState::Failed,   TrialState::Finished};
  for (size_t i = 0; i < record.trials.size(); ++i) {
    SweepTrial& trial = record.trials[i];
    trial.state = states[i];
    trial.steps = 100 + int64_t(i);
    if (trial.state != TrialState::Diverged) trial.loss = 1.0 / (3.0 + double(i));
    if (trial.state == TrialState::Finished) {
      trial.val_loss = 0.1 + 0.1 * std::abs(double(i) - 1.0);
      trial.val_step = 100;
    }
    trial.rungs = {1.0 / 3.0, std::nan(""), 1e-300};
    trial.reason = "\"quoted\" </script>\n\xff";
  }
  return record;
}

TEST(SweepRecord, ReadsBackAsItWasWritten) {
  SweepRecord record = ended_record();
  record.trials[0].reason.clear();
  for (SweepTrial& trial : record.trials) trial.reason = "a \"b\"\n";
  record.spec.random = 6;
  record.spec.resume = "a \"checkpoint\"";
  const std::string text = sweep_json(record);
  const auto read = parse_sweep_json(text);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(sweep_json(*read), text);
  EXPECT_EQ(difference_of(read->spec, record.spec), "");
  EXPECT_EQ(read->spec.resume, record.spec.resume);
  EXPECT_EQ(read->ranking(), record.ranking());
  EXPECT_EQ(read->spec.seed, UINT64_MAX);
  EXPECT_EQ(read->trials[1].rungs[2], 1e-300);
  EXPECT_TRUE(std::isnan(read->trials[1].rungs[1]));
}

TEST(SweepRecord, OfARangeTestToo) {
  SweepRecord record;
  record.spec.lr_range = LrRange{1e-6, 1.0};
  record.spec.config = "{}";
  record.trials.push_back({.state = TrialState::Finished});
  record.finding = {.steepest_lr = 1.0 / 3.0, .diverged_lr = 0.5, .diverged_step = 7};
  const auto read = parse_sweep_json(sweep_json(record));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(sweep_json(*read), sweep_json(record));
  EXPECT_EQ(repeat_command(*read, 0), "trireme train --set optim.lr=0.05");
}

TEST(SweepRecord, EveryChangedByteIsNoticed) {
  const std::string text = sweep_json(ended_record());
  for (size_t i = 0; i < text.size(); i += 7) {
    std::string changed = text;
    changed[i] = char(changed[i] ^ 1);
    EXPECT_EQ(parse_sweep_json(changed).error().kind, ErrorKind::Damaged) << i;
  }
  EXPECT_FALSE(parse_sweep_json(text.substr(0, text.size() / 2)).ok());
  EXPECT_FALSE(parse_sweep_json("").ok());
}

TEST(SweepRecord, SealedNonsenseIsDamaged) {
  nlohmann::json good = parse_json(sweep_json(ended_record()));
  good.erase("checksum");
  ASSERT_TRUE(parse_sweep_json(seal_json(json_text(good))).ok());
  const auto refused = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json bad = good;
    bad[nlohmann::json::json_pointer(pointer)] = value;
    EXPECT_EQ(parse_sweep_json(seal_json(json_text(bad))).error().kind, ErrorKind::Damaged)
        << pointer;
  };
  refused("/sweep", 3);
  refused("/sweep/over/0/spec", "1..0:log3");
  refused("/sweep/seed", "one");
  refused("/sweep/total_steps", INT64_MAX);
  refused("/trials/0/steps", -1);
  refused("/trials", nlohmann::json::array());
  refused("/trials/0/state", "asleep");
  refused("/trials/0/values", {{"optim.lr", "1"}});
  refused("/trials/0/rungs", {"a"});
}

TEST(SweepRecord, RanksFinishedTrialsByValidationAndTheOthersBehindThem) {
  const SweepRecord record = ended_record();
  EXPECT_EQ(record.ranking(), (std::vector<size_t>{1, 0, 5, 2, 3, 4}));
  EXPECT_EQ(record.best(), 1u);
  SweepRecord unvalidated = record;
  unvalidated.trials[1].val_loss.reset();
  EXPECT_EQ(unvalidated.ranking(), (std::vector<size_t>{5, 1, 0, 2, 3, 4}));  // by training loss
  SweepRecord none = record;
  for (SweepTrial& trial : none.trials) trial.state = TrialState::Stopped;
  EXPECT_FALSE(none.best());
}

TEST(SweepRecord, AnotherSweepIsNamed) {
  const SweepSpec one = record_of({"optim.lr=1,2"}).spec;
  const auto difference = [&](auto change) {
    SweepSpec other = one;
    change(other);
    return difference_of(one, other);
  };
  EXPECT_EQ(difference([](SweepSpec&) {}), "");
  EXPECT_EQ(difference_of(one, record_of({"optim.lr=1,3"}).spec),
            "it is about --over optim.lr=1,2, and not about --over optim.lr=1,3");
  EXPECT_EQ(difference([](SweepSpec& spec) { spec.resume = "ck"; }),
            "it is about initial weights, and not about --resume ck");
  EXPECT_NE(difference([](SweepSpec& spec) { spec.seed = 3; }), "");
  EXPECT_NE(difference([](SweepSpec& spec) { spec.random = 3; }), "");
  EXPECT_NE(difference([](SweepSpec& spec) { spec.stops_early = false; }), "");
  EXPECT_NE(difference([](SweepSpec& spec) { spec.grace = 0.5; }), "");
  EXPECT_NE(difference([](SweepSpec& spec) { spec.lr_range = LrRange{1.0, 2.0}; }), "");
  EXPECT_EQ(difference([](SweepSpec& spec) { spec.config = "{\"optim\":{\"lr\":0.2}}"; }),
            "optim.lr was 0.1 and is 0.2 now");
}

TEST(SweepRecord, TheBestIsRepeatedByACommandThatAShellReads) {
  SweepRecord record = record_of({"optim.lr=1e-3", "optim.frozen=\"a,b*\""});
  EXPECT_EQ(repeat_command(record, 0),
            "trireme train 'my run.toml' --set run.steps=200 --set optim.lr=1e-3 --set "
            "'optim.frozen=\"a,b*\"'");
  record.spec.resume = "my model";
  EXPECT_NE(repeat_command(record, 0).find(" --set run.steps=200 --resume 'my model' --set optim"),
            std::string::npos);
  EXPECT_EQ(repeat_command(record, 0, "/my tools/trireme").find("'/my tools/trireme' train 'my"),
            0u);
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(SweepPage, NoTextEndsItsScript) {
  const SweepRecord record = ended_record();
  const std::string page = sweep_page(record, std::vector<TrialCurve>(record.trials.size()),
                                      {"/runs/a </script> b", "/bin/trireme", "/"});
  const std::string empty_page =
      sweep_page(record_of({"optim.lr=1"}), {TrialCurve()}, {"/x", "/bin/trireme", "/"});
  const auto count = [](const std::string& text) {
    size_t ends = 0;
    for (size_t at = text.find("</script"); at != text.npos; at = text.find("</script", at + 1)) {
      ++ends;
    }
    return ends;
  };
  EXPECT_EQ(count(page), count(empty_page));
}

TEST(SweepPage, ItsCommandRunsFromAnyFolder) {
  const SweepRecord record = ended_record();
  const std::string page = sweep_page(record, std::vector<TrialCurve>(record.trials.size()),
                                      {"/runs/best of", "/my tools/trireme", "/work"});
  EXPECT_NE(page.find("cd /work\\n'/my tools/trireme' train "), std::string::npos);
  EXPECT_NE(page.find(" --out '/runs/best of-best'"), std::string::npos);
}

}  // namespace
}  // namespace trireme
