#include <filesystem>
#include <regex>
#include <sstream>

#include "cli/command_fixture.h"

namespace trireme {
namespace {

using Words = std::vector<std::string>;

class LoraResume : public CommandTest {
 protected:
  static Words train(const std::string& out, const Words& more) {
    Words words = {"train", "tiny.toml", "--out", out, "--set", "run.threads_per_rank=1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // The commands in a message, which stand between `trireme and `.
  static std::vector<Words> commands_in(const std::string& message) {
    std::vector<Words> commands;
    const std::regex quoted("`trireme ([^`]*)`");
    for (auto at = std::sregex_iterator(message.begin(), message.end(), quoted);
         at != std::sregex_iterator(); ++at) {
      std::istringstream text((*at)[1]);
      Words& words = commands.emplace_back();
      for (std::string word; text >> word;) words.push_back(word);
    }
    return commands;
  }
};

// The refusal says what the checkpoint has, and its commands lead to a run with the other rank.
TEST_F(LoraResume, OtherAdaptersAreRefusedWithAWayThatWorks) {
  succeed(train("run", {"--set", "model.lora_rank=4", "--set", "run.steps=1"}));
  const auto refused = [&](const Words& more) {
    Words words = train("run", {"--resume", "auto", "--set", "run.steps=2"});
    words.insert(words.end(), more.begin(), more.end());
    const CommandAnswer answer = answer_of(words);
    EXPECT_EQ(answer.exit_code, 2) << answer.err;
    return answer.err;
  };
  const std::string other = refused({"--set", "model.lora_rank=2"});
  EXPECT_NE(other.find("model.lora_rank = 2, but the adapters in "), std::string::npos) << other;
  EXPECT_NE(other.find("have 4: resume with model.lora_rank = 4, or"), std::string::npos) << other;
  const std::string scaled = refused({"--set", "model.lora_rank=4", "--set", "model.lora_alpha=3"});
  EXPECT_NE(scaled.find("model.lora_alpha = 3.0, but"), std::string::npos) << scaled;
  EXPECT_NE(scaled.find("have 8 (the default, 2 model.lora_rank): "), std::string::npos) << scaled;
  EXPECT_NE(refused({"--set", "model.lora_rank=4", "--set", "model.lora_targets=q,v"})
                .find("model.lora_targets = \"q,v\", but"),
            std::string::npos);

  const std::vector<Words> commands = commands_in(other);
  ASSERT_EQ(commands.size(), 2u) << other;
  for (const Words& command : commands) succeed(command);
  succeed(
      train("again", {"--resume", "BASE", "--set", "run.steps=2", "--set", "model.lora_rank=2"}));
  EXPECT_TRUE(std::filesystem::exists("again/checkpoints/step-000002"));
}

// A frozen parameter has no state of the optimizer, so a run cannot go on and train it. The
// commands of the refusal lead to a run that does; more may be frozen at any time.
TEST_F(LoraResume, TrainingWhatWasFrozenIsRefusedWithAWayThatWorks) {
  succeed(train("run", {"--set", "optim.frozen=embedding.*", "--set", "run.steps=1"}));
  const CommandAnswer refused =
      answer_of(train("run", {"--resume", "auto", "--set", "run.steps=2"}));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("optim.frozen = \"\" trains embedding."), std::string::npos)
      << refused.err;
  EXPECT_NE(refused.err.find("(optim.frozen = \"embedding.*\")"), std::string::npos) << refused.err;
  succeed(train("run", {"--resume", "auto", "--set", "run.steps=2", "--set",
                        "optim.frozen=embedding.*,layers.0.*"}));
  const std::vector<Words> commands = commands_in(refused.err);
  ASSERT_EQ(commands.size(), 2u) << refused.err;
  for (const Words& command : commands) succeed(command);
  succeed(train("again", {"--resume", "BASE", "--set", "run.steps=2"}));
}

}  // namespace
}  // namespace trireme
