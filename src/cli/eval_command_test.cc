#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "base/file.h"
#include "base/json_text.h"
#include "cli/command_fixture.h"
#include "data/encoded_images.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

// The configuration of the run names neither vocabulary nor tokenizer, so the checkpoint must hold
// both.
class EvalCommand : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    succeed({"train", "tiny.toml",
             "--set", "data.source=files",
             "--set", "data.train=data/train.tok",
             "--set", "data.val=data/val.tok",
             "--set", "model.vocab_size=0",
             "--set", "run.eval_every=1",
             "--set", "run.steps=2",
             "--set", "optim.lr=1e-2",
             "--set", "run.threads_per_rank=1",
             "--set", "optim.warmup_steps=0",
             "--out", "run"});
  }

  static Json eval(const std::vector<std::string>& more, const std::string& data = "text.txt") {
    std::vector<std::string> args = {"eval",   "run",   data,
                                     "--json", "--set", "run.threads_per_rank=1"};
    args.insert(args.end(), more.begin(), more.end());
    return parse_json(succeed(args));
  }
};

TEST_F(EvalCommand, EveryLayoutAndTheTokenFileOfTheTextHaveTheSameNumbers) {
  const Json one = eval({});
  EXPECT_EQ(one["step"], 2);
  EXPECT_EQ(one["bytes"].get<int64_t>(), int64_t(std::filesystem::file_size("text.txt")) - 1);
  EXPECT_EQ(one["tokens"], one["bytes"].get<int64_t>() + 1);  // one more: the end of the text
  const double loss = one["loss"];
  EXPECT_NEAR(one["perplexity"].get<double>(), std::exp(loss), 1e-9);
  EXPECT_GT(one["top1"].get<double>(), 0.0);
  EXPECT_NEAR(one["bits_per_byte"].get<double>() * one["bytes"].get<double>(),
              loss / std::log(2.0) * one["tokens"].get<double>(), 1e-6);
  for (const std::vector<std::string>& layout : {std::vector<std::string>{"--ranks", "2"},
                                                 {"--set", "parallel.pp=2"},
                                                 {"--ranks", "4", "--set", "parallel.pp=2"}}) {
    const Json other = eval(layout);
    EXPECT_EQ(other["loss"], one["loss"]);
    EXPECT_EQ(other["top1"], one["top1"]);
  }
  const Json split = eval({"--set", "parallel.tp=2"});
  EXPECT_NEAR(split["loss"].get<double>(), loss, 1e-5);
  succeed({"data", "prepare", "text.txt", "--tokenizer", "byte", "--val-fraction", "0", "--out",
           "all"});
  const Json tokens = eval({}, "all/train.tok");
  EXPECT_EQ(tokens["loss"], one["loss"]);
  EXPECT_EQ(tokens["bits_per_byte"], one["bits_per_byte"]);
}

// A command that would evaluate another model than that of the checkpoint is refused. Keys that do
// not change the model stay allowed, and so does a key with the value that the checkpoint has.
TEST_F(EvalCommand, AnotherModelThanThatOfTheCheckpointIsRefused) {
  const Json loss = eval({})["loss"];
  for (const char* set :
       {"model.layers=1", "model.heads=2", "model.norm_eps=0.1", "model.activation=relu"}) {
    const CommandAnswer refused = answer_of({"eval", "run", "text.txt", "--set", set});
    EXPECT_EQ(refused.exit_code, 2) << set << refused.out;
    const std::string key(set, std::string(set).find('='));
    EXPECT_NE(refused.err.find(key + " = "), std::string::npos) << refused.err;
    EXPECT_NE(refused.err.find("holds the weights of a model with"), std::string::npos)
        << refused.err;
  }
  EXPECT_EQ(eval({"--set", "model.layers=4"})["loss"], loss);
  EXPECT_EQ(eval({"--set", "batch.micro_sequences=1"})["loss"], loss);
}

// The bytes of masked tokens are not known, and a line that says 0 bytes would be wrong.
TEST_F(EvalCommand, BytesThatAreNotKnownAreNotTold) {
  std::ofstream("chats.jsonl") << R"({"messages":[{"role":"user","content":"hello"},)"
                               << R"({"role":"assistant","content":"once there was"}]})"
                               << "\n";
  succeed({"data", "prepare", "chats.jsonl", "--format", "chat", "--tokenizer", "byte",
           "--val-fraction", "0", "--out", "chats"});
  const std::string masked = succeed({"eval", "run", "chats/train.tok"});
  EXPECT_NE(masked.find("predicted tokens\n"), std::string::npos) << masked;
  EXPECT_EQ(masked.find(" bytes"), std::string::npos) << masked;
  EXPECT_NE(succeed({"eval", "run", "text.txt"}).find(" bytes\n"), std::string::npos);
}

TEST_F(EvalCommand, TheBestCheckpointAndItsVocabularyAreFoundByName) {
  EXPECT_NE(succeed({"eval", "run/best", "text.txt"}).find("step-00000"), std::string::npos);
  const std::vector<std::string> words = {"generate", "run/best", "-p",     "Once",
                                          "-n",       "40",       "--seed", "3"};
  const std::string whole = succeed(words);
  EXPECT_TRUE(whole.starts_with("Once")) << whole;
  const std::string stop = whole.substr(10, 2);
  std::vector<std::string> until = words;
  until.insert(until.end(), {"--stop", stop});
  EXPECT_EQ(succeed(until), whole.substr(0, whole.find(stop, 4)) + "\n");
  std::vector<std::string> penalized = words;
  penalized.insert(penalized.end(), {"--repeat-penalty", "3"});
  EXPECT_NE(succeed(penalized), whole);
}

// Bytes that are no text are refused with an option of this command, and evaluated with it.
TEST_F(EvalCommand, BinaryDataNeedAnOptionThatTheRefusalNames) {
  std::ofstream("data.gguf") << "GGUF with some more bytes";
  std::ofstream("zeros") << std::string("some\0more", 9);
  for (const char* file : {"data.gguf", "zeros"}) {
    const CommandAnswer refused = answer_of({"eval", "run", file});
    EXPECT_EQ(refused.exit_code, 4) << refused.err;
    EXPECT_NE(refused.err.find("--binary"), std::string::npos) << refused.err;
    const Json read = eval({"--binary"}, file);
    EXPECT_EQ(read["bytes"].get<int64_t>(), int64_t(std::filesystem::file_size(file)) - 1);
  }
}

TEST_F(EvalCommand, SaysWhyAModelAndATextDoNotFit) {
  std::ofstream("one.txt") << "";
  for (const auto& [args, part] :
       {std::pair<std::vector<std::string>, std::string>{{"eval", "run", "missing.txt"}, "missing"},
        {{"eval", "run", "text.txt", "--ranks", "3", "--set", "parallel.dp=2"}, "3 ranks"},
        {{"eval", "run", "text.txt", "--set", "parallel.tp=3"}, "parallel.tp"},
        {{"eval", "missing", "text.txt"}, "no such folder"}}) {
    const CommandAnswer answer = answer_of(args);
    EXPECT_EQ(answer.exit_code, 2) << answer.err;
    EXPECT_NE(answer.err.find(part), std::string::npos) << answer.err;
  }
}

// A net of 8 x 8 images of 10 classes, trained for two steps and validated on all images.
class EvalOfImages : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    std::ofstream table("digits.csv");
    for (int image = 0; image < 40; ++image) {
      for (int pixel = 0; pixel < 64; ++pixel)
        table << (image * 7 + pixel * (image % 10)) % 17 << ",";
      table << image % 10 << "\n";
    }
    std::ofstream("net.toml") << R"(
[model]
family = "conv_net"
layers = 1
image_size = 8
image_channels = 1
seq_len = 1
vocab_size = 10
[data]
source = "images"
train = "digits.csv"
val = "digits.csv"
[batch]
global_sequences = 8
micro_sequences = 4
[run]
steps = 2
eval_every = 2
eval_sequences = 40
threads_per_rank = 1
)";
  }
};

TEST_F(EvalOfImages, HasTheNumbersOfTheLastValidationOnEveryLayout) {
  succeed({"train", "net.toml", "--out", "run"});
  const Json summary = parse_json(read_text_file("run/summary.json").value());
  for (const char* ranks : {"1", "2"}) {
    const Json images =
        parse_json(succeed({"eval", "run", "digits.csv", "--json", "--ranks", ranks}));
    EXPECT_EQ(images["tokens"], 40);
    EXPECT_EQ(images["loss"], summary["val_loss"]);
    EXPECT_EQ(images["top1"], summary["val_accuracy"]);
  }
  const std::string text = succeed({"eval", "run", "digits.csv"});
  EXPECT_NE(text.find("digits.csv: 40 images\n"), std::string::npos) << text;
  EXPECT_NE(text.find("nats per image"), std::string::npos) << text;
  const CommandAnswer generated = answer_of({"generate", "run", "-p", "a"});
  EXPECT_EQ(generated.exit_code, 2);
  EXPECT_NE(generated.err.find("is a net of images (conv_net), which generates no text: `trireme "
                               "eval run/checkpoints/step-000002 IMAGES`"),
            std::string::npos)
      << generated.err;
}

TEST_F(EvalOfImages, ThePlanOfTheNetCountsImages) {
  const std::string plan = succeed({"plan", "net.toml", "--explain"});
  for (const char* words :
       {"conv_net with 1 layers, images of 8 x 8 with 1 channel, 10 classes",
        " per image and training step\n", "batch      8 images a step: ", " images/s, MFU "}) {
    EXPECT_NE(plan.find(words), std::string::npos) << words << plan;
  }
  EXPECT_EQ(plan.find("token"), std::string::npos) << plan;
}

// Folders of images with these classes, two images each.
void write_folders(const std::string& root, const std::vector<std::string>& classes) {
  for (const std::string& name : classes) {
    std::filesystem::create_directories(root + "/" + name);
    for (uint8_t image = 0; image < 2; ++image) {
      const std::vector<uint8_t> pixels(64, uint8_t(image * 90));
      std::ofstream(fmt::format("{}/{}/{}.png", root, name, image), std::ios::binary)
          << encoded_png({8, 8, 1}, pixels);
    }
  }
}

TEST_F(EvalOfImages, SetsWhoseClassesDoNotFitAreRefused) {
  write_folders("train", {"cat", "dog"});
  write_folders("same", {"cat", "dog"});
  write_folders("other", {"cat", "eel"});
  write_folders("more", {"cat", "dog", "eel"});
  const auto run = [](const std::string& val, const std::string& more) {
    return answer_of({"train", "net.toml", "--out", "out-" + val, "--set", "data.train=train",
                      "--set", "data.val=" + val, "--set", "model.vocab_size=2", "--set",
                      "run.eval_sequences=4", "--set", "batch.global_sequences=4", "--set", more});
  };
  const CommandAnswer same = run("same", "run.steps=2");
  EXPECT_EQ(same.exit_code, 0) << same.err;
  const std::tuple<const char*, const char*, const char*> refused[] = {
      {"other", "run.steps=2",
       "data.val = \"other\" calls class 1 eel, and data.train calls it dog"},
      {"more", "run.steps=2", "has images of 3 classes, and the model tells 2 apart"},
      {"same-2", "data.crop_margin=8", "out of sight"},
      {"same-3", "model.window=4", "model.window = 4 has no place in a net of images"},
  };
  for (const auto& [val, more, words] : refused) {
    const CommandAnswer answer = run(val, more);
    EXPECT_EQ(answer.exit_code, 2) << val;
    EXPECT_NE(answer.err.find(words), std::string::npos) << answer.err;
  }
}

}  // namespace
}  // namespace trireme
