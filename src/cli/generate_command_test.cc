#include "cli/generate_command.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "base/json_text.h"
#include "base/units.h"
#include "cli/command_fixture.h"
#include "cli/foreign_model_fixture.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// Runs in a folder with one small model in the formats hf/ and model.gguf.
class Generate : public testing::Test {
 protected:
  void SetUp() override {
    before_ = fs::current_path();
    folder_ = fs::temp_directory_path() / ("trireme-generate-" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::current_path(folder_);
    InterchangeModel model = small_foreign_model(ModelConfig().family);
    model.dtype = DType::F32;
    ASSERT_TRUE(write_foreign_model(model, "hf", {}).ok());
    ASSERT_TRUE(write_foreign_model(model, "model.gguf", {.format = ForeignFormat::Gguf}).ok());
  }
  void TearDown() override {
    fs::current_path(before_);
    fs::remove_all(folder_);
  }

  static CommandAnswer generate(std::vector<std::string> args) {
    args.insert(args.begin(), "generate");
    args.insert(args.end(), {"--threads", "1"});
    return answer_of(args);
  }
  static std::string text_of(const std::vector<std::string>& args) {
    const CommandAnswer answer = generate(args);
    EXPECT_EQ(answer.exit_code, 0) << answer.err;
    return answer.out;
  }

  fs::path folder_, before_;
};

// The formats hold the same weights and tokenizers, so each draws the same text; so does the
// checkpoint that is imported from them.
TEST_F(Generate, ModelsOfOtherProgramsHaveTheTextOfTheirCheckpointInEveryPrecision) {
  ASSERT_EQ(answer_of({"checkpoint", "import", "hf", "--out", "ck"}).exit_code, 0);
  for (const char* precision : {"", "fp32", "bf16", "fp16", "q8_0"}) {
    SCOPED_TRACE(precision);
    const auto of = [&](const std::string& model) {
      std::vector<std::string> args = {model, "-p", "Once", "-n", "10", "--seed", "5"};
      if (*precision != '\0') args.insert(args.end(), {"--precision", precision});
      return text_of(args);
    };
    const std::string expected = of("ck");
    EXPECT_GT(expected.size(), 8u);
    EXPECT_EQ(of("hf"), expected);
    EXPECT_EQ(of("model.gguf"), expected);
  }
}

// The matrices of two layers, and the head, which shares the table of the embedding; no table of
// positions and no vector. Each layer has 12 d_model^2.
TEST_F(Generate, SaysHowManyOfTheWeightsAreInBytes) {
  const CommandAnswer answer = generate({"hf", "-p", "Once", "-n", "2", "--precision", "q8_0"});
  const std::string in_bytes = format_count(2.0 * 12 * 32 * 32 + 300 * 32);
  EXPECT_NE(answer.err.find("\nq8_0: " + in_bytes + " of "), std::string::npos) << answer.err;
  EXPECT_EQ(generate({"hf", "-p", "Once", "-n", "2"}).err.find("in bytes"), std::string::npos);
}

TEST_F(Generate, SaysWhatTheContextCannotHold) {
  for (const char* model : {"hf", "model.gguf"}) {
    const CommandAnswer fits = generate({model, "-p", "Once", "-n", "4"});
    EXPECT_EQ(fits.err.find("context"), std::string::npos) << fits.err;
    const CommandAnswer cut = generate({model, "-p", std::string(40, 'x'), "-n", "4"});
    EXPECT_EQ(cut.exit_code, 0);
    EXPECT_NE(cut.err.find("the prompt has 40 tokens, but the context of the model has 16"),
              std::string::npos)
        << cut.err;
    EXPECT_NE(cut.err.find("only the last 8 tokens"), std::string::npos) << cut.err;
    const CommandAnswer full = generate({model, "-p", "Once", "-n", "60", "--temp", "1"});
    const size_t told = full.err.find("the context of 16 tokens is full");
    EXPECT_NE(told, std::string::npos) << full.err;
    EXPECT_EQ(full.err.find("the context of 16 tokens", told + 1), std::string::npos) << full.err;
  }
}

// Files of llm.c have no tokenizer, so one is named. It has the same text as in the other formats.
TEST_F(Generate, ATokenizerCanBeNamedForAModelThatHasNone) {
  InterchangeModel model = small_foreign_model(ModelConfig().family);
  model.dtype = DType::F32;
  ASSERT_TRUE(write_foreign_model(model, "model.bin", {.format = ForeignFormat::Llmc}).ok());
  const std::vector<std::string> rest = {"-p", "Once", "-n", "10", "--seed", "5"};
  const auto with = [&](std::vector<std::string> args) {
    args.insert(args.end(), rest.begin(), rest.end());
    return args;
  };
  const CommandAnswer refused = generate(with({"-m", "model.bin"}));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("model.bin has no tokenizer that can be used: files of this format "
                             "hold none; if you know which one made its tokens, name it with "
                             "--tokenizer\n"),
            std::string::npos)
      << refused.err;
  const std::string expected = text_of(with({"hf"}));
  EXPECT_EQ(text_of(with({"-m", "model.bin", "--tokenizer", "hf"})), expected);
  EXPECT_EQ(text_of(with({"-m", "model.bin", "--tokenizer", "hf/tokenizer.json"})), expected);

  {
    std::ofstream text("text.txt");
    for (int number = 0; number < 2000; ++number) text << "number " << number * 7919 << "\n";
  }
  const std::vector<std::string> train = {"tokenizer", "train", "text.txt", "--vocab-size",
                                          "301",       "--out", "tok.json"};
  ASSERT_EQ(answer_of(train).exit_code, 0);
  const CommandAnswer large = generate(with({"hf", "--tokenizer", "tok.json"}));
  EXPECT_EQ(large.exit_code, 2);
  EXPECT_NE(large.err.find("tokens are more than the model's 300"), std::string::npos) << large.err;
}

TEST_F(Generate, APromptThatIsNotTextIsRefusedAsDataRefusesIt) {
  std::ofstream("program") << std::string(
      "\x7f"
      "ELF\0\1",
      6);
  for (const char* option : {"--file", "--prompts"}) {
    const CommandAnswer refused = generate({"hf", option, "program", "-n", "2"});
    EXPECT_EQ(refused.exit_code,
              answer_of({"tokenizer", "encode", "program", "--tokenizer", "byte"}).exit_code);
    EXPECT_NE(refused.err.find("program: is binary, not text: byte 4 is zero"), std::string::npos)
        << refused.err;
    EXPECT_EQ(generate({"hf", option, "program", "-n", "2", "--binary"}).exit_code, 0);
  }
}

TEST_F(Generate, ReportsTheSpeedsOfPromptAndTextApart) {
  const CommandAnswer one = generate({"hf", "-p", "Once", "-n", "8"});
  EXPECT_TRUE(one.err.starts_with("model: loaded in ")) << one.err;
  EXPECT_NE(one.err.find("\nprompt: 4 tokens, first token after "), std::string::npos) << one.err;
  EXPECT_NE(one.err.find("\ntext: 8 tokens, 7 drawn after the first in "), std::string::npos)
      << one.err;
  const CommandAnswer none = generate({"hf", "-p", "Once", "-n", "0"});
  EXPECT_EQ(none.out, "Once\n");
  EXPECT_NE(none.err.find("\ntext: 0 tokens\n"), std::string::npos) << none.err;
}

// serve-plan plans with the rate that generate has measured, and shows it beside the price.
TEST_F(Generate, WritesASpeedWithWhichServePlanPlans) {
  ASSERT_EQ(generate({"hf", "-p", "Once", "-n", "8", "--speed", "speeds/here.json"}).exit_code, 0);
  const auto speed = parse_json(read_text_file("speeds/here.json").value());
  EXPECT_EQ(speed.at("prompt_tokens"), 4);
  EXPECT_EQ(speed.at("decoded_tokens"), 7);
  const fs::path root = fs::weakly_canonical(before_ / kRoot);
  std::ofstream("tiers.toml") << "[tiers.here]\n[workers.thread]\ntier = \"here\"\nworkers = 9\n"
                              << "memory_bytes = 1e12\ncluster = \""
                              << (root / "clusters" / "dgx-h100.toml").string() << "\"\n";
  const std::string pipeline =
      "[sources.users]\ntier = \"here\"\nitems_per_s = 0.001\n[operators.answer]\n"
      "inputs = { users = 1.0 }\n[operators.answer.models.small]\nmodel = \"" +
      (root / "models" / "gpt2-124m.toml").string() +
      "\"\nprompt_tokens = 8\noutput_tokens = 14\nmeasured = { thread = \"speeds/here.json\" }\n";
  std::ofstream("pipeline.toml") << pipeline;
  const auto plan = [](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"serve-plan", "pipeline.toml", "--tiers", "tiers.toml"};
    args.insert(args.end(), more.begin(), more.end());
    return answer_of(args);
  };
  const CommandAnswer planned = plan({"--json"});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  const auto speeds = parse_json(planned.out).at("speeds").at(0);
  const double request_s =
      2.0 * speed.at("first_token_s").get<double>() + 2.0 * speed.at("decode_s").get<double>();
  EXPECT_NEAR(speeds.at("items_per_s").at("thread").get<double>() * request_s, 1.0, 1e-9);
  EXPECT_GT(speeds.at("priced_items_per_s").at("thread").get<double>(), 0.0);
  EXPECT_NE(plan({}).out.find("(measured; priced "), std::string::npos) << plan({}).out;
  const std::string times = R"("decoded_tokens": 7, "decode_s": 1, "prompts": 2, )";
  for (const auto& [file, problem] :
       {std::pair<std::string, std::string>{"{}", "not a measurement with a prompt"},
        {"{", "not JSON"},
        {"{" + times + R"("prompt_tokens": 66, "first_token_s": 1})",
         "its prompts have 33 tokens and those of the requests 8,"},
        {R"({"decoded_tokens": 7, "decode_s": 1e-14, "prompt_tokens": 4, "first_token_s": 1e-14})",
         "2.5e+13 requests per second are more than 1e+12"}}) {
    std::ofstream("speeds/here.json") << file;
    const std::string err = plan({}).err;
    EXPECT_NE(err.find("speeds/here.json: " + problem), std::string::npos) << file << "\n" << err;
  }
}

// Prompt K is drawn as if it were the only one, with the seed that lies K - 1 above.
TEST_F(Generate, EachPromptOfAFileHasTheTextThatItHasAlone) {
  std::ofstream("prompts.txt") << "Once\n\nI am\r\n" << std::string(30, 'y') << "\nOnce";
  const std::vector<std::string> prompts = {"Once", "I am", std::string(30, 'y'), "Once"};
  std::string expected;
  for (size_t k = 0; k < prompts.size(); ++k) {
    expected += fmt::format("{}== prompt {} of 4 ==\n", k == 0 ? "" : "\n", k + 1);
    expected += text_of({"hf", "-p", prompts[k], "-n", "12", "--seed", fmt::format("{}", 7 + k)});
  }
  const CommandAnswer all = generate({"hf", "--prompts", "prompts.txt", "-n", "12", "--seed", "7"});
  EXPECT_EQ(all.exit_code, 0) << all.err;
  EXPECT_EQ(all.out, expected);
  EXPECT_NE(all.err.find("\nprompt 3: the prompt has 30 tokens"), std::string::npos) << all.err;
  EXPECT_NE(all.err.find("\n4 prompts: "), std::string::npos) << all.err;
  EXPECT_NE(all.err.find("\n4 texts: "), std::string::npos) << all.err;
}

}  // namespace
}  // namespace trireme
